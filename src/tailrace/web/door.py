"""Doors of an HTTP service: which callers it admits."""

import hmac
from types import TracebackType
from typing import Self

from tailrace.web.audit import ServiceAudit
from tailrace.web.auth import Users
from tailrace.web.caller import UNJUDGED, Caller, Refusal
from tailrace.web.credential import read_credential


class Door:
    """A door that admits every caller. Use it as an async context manager while the service runs."""

    schemes: tuple[str, ...] = ()
    """The schemes of authentication that a refused caller is told of."""
    audit: ServiceAudit | None = None
    """The log of what callers are denied and what they change, if ACLs decide about them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def admit(self, authorization: str, host: str) -> Caller:
        """Return the caller of a request by its header and its address; raises `Refusal`."""
        del authorization, host
        return UNJUDGED


class FileDoor(Door):
    """A door that admits the users of a file, who may do everything."""

    schemes = ("Basic",)

    def __init__(self, users: Users) -> None:
        self._users = users

    async def admit(self, authorization: str, host: str) -> Caller:
        del host
        credential = read_credential(authorization)
        if credential is None or credential.is_token:
            raise unauthorized()
        known = self._users.get(credential.user, "")
        if not known or not hmac.compare_digest(known.encode(), credential.secret.encode()):
            raise unauthorized()
        return UNJUDGED


def unauthorized() -> Refusal:
    """Return the refusal of a caller without a valid credential."""
    return Refusal(401, "Unauthorized")
