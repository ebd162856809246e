"""The caller of an HTTP request: its principal, and what it may do."""

from collections.abc import Collection, Container
from typing import Protocol

from tailrace.protocol.acl_code import Operation, Resource

CALLER = "tailrace.caller"
"""Where the ASGI scope of a request has its caller."""


class Refusal(Exception):
    """A request that is refused because of its caller, or because its caller's rights are not known."""

    def __init__(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


class Caller(Protocol):
    """The caller of a request. A caller that is not judged may do everything."""

    @property
    def principal(self) -> str:
        """The caller as ACLs name it, such as `User:alice`."""
        ...

    @property
    def is_judged(self) -> bool:
        """Whether ACLs decide what the caller may do."""
        ...

    async def allowed(self, operation: Operation, resource: Resource, names: Collection[str]) -> Container[str]:
        """Return which of some resources the caller may perform an operation on; raises `Refusal`."""
        ...

    async def leave(self) -> None:
        """End a request of the caller."""
        ...


class Everything(Container[str]):
    """A container of all names."""

    def __contains__(self, name: object) -> bool:
        return True


class Unjudged:
    """A caller that may do everything."""

    is_judged = False

    def __init__(self, user: str = "ANONYMOUS") -> None:
        self.principal = f"User:{user}"

    async def allowed(self, operation: Operation, resource: Resource, names: Collection[str]) -> Container[str]:
        """Allow everything."""
        del operation, resource, names
        return Everything()

    async def leave(self) -> None:
        """Keep nothing, so nothing ends."""


UNJUDGED = Unjudged()
