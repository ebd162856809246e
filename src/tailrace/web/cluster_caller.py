"""A caller that has logged in as a user of the cluster, with connections to brokers in that user's name."""

import logging
import time
from collections.abc import Collection, Container

from tailrace.base.caller_limits import HTTP_LOGIN_AGE_S, HTTP_RIGHTS_AGE_S, HTTP_RIGHTS_KEPT_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.error import AuthenticationError, ClientError
from tailrace.protocol.acl_code import Operation, Resource
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.web.caller import Refusal
from tailrace.web.judge import ask_rights, includes

_log = logging.getLogger(__name__)


class ClusterCaller:
    """A user of the cluster, for as long as its login holds.

    The connections, and with them the password, are kept until the login is too old and the last request has ended.
    """

    is_judged = True

    def __init__(self, user: str, cluster: Cluster) -> None:
        self.principal = f"User:{user}"
        self._cluster = cluster
        self._ends_at_s = time.monotonic() + HTTP_LOGIN_AGE_S
        self._request_count = 0
        self._rights: dict[tuple[Resource, str], tuple[float, int]] = {}

    @property
    def is_valid(self) -> bool:
        """Whether the login still holds for new requests."""
        return time.monotonic() < self._ends_at_s

    @property
    def is_idle(self) -> bool:
        """Whether no request of the caller is being served."""
        return self._request_count == 0

    def enter(self) -> "ClusterCaller":
        """Begin a request of the caller."""
        self._request_count += 1
        return self

    async def leave(self) -> None:
        """End a request of the caller."""
        self._request_count -= 1
        if self.is_idle and not self.is_valid:
            await self.close()

    async def expire(self) -> None:
        """Let the login hold for no new request, and close the connections after the last one."""
        self._ends_at_s = 0.0
        if self.is_idle:
            await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def allowed(self, operation: Operation, resource: Resource, names: Collection[str]) -> Container[str]:
        """Return which of some resources the user may perform an operation on; raises `Refusal`."""
        oldest_s = time.monotonic() - HTTP_RIGHTS_AGE_S
        known = {name: self._rights.get((resource, name), (0.0, 0)) for name in names}
        unknown = [name for name, (asked_at_s, _) in known.items() if asked_at_s <= oldest_s]
        if unknown:
            known |= await self._ask(resource, unknown)
        return frozenset(name for name, (_, operations) in known.items() if includes(operations, operation))

    async def _ask(self, resource: Resource, names: list[str]) -> dict[str, tuple[float, int]]:
        asked_at_s = time.monotonic()
        try:
            told = await ask_rights(self._cluster, resource, names)
        except AuthenticationError:
            self._ends_at_s = 0.0
            raise Refusal(401, "Unauthorized") from None
        except (ClientError, ApiError, RemoteProtocolError, OSError) as error:
            _log.warning("the brokers do not tell the rights of %s: %s", self.principal, error)
            raise Refusal(503, "The brokers do not tell what the user may do; try again later") from None
        found = {name: (asked_at_s, operations) for name, operations in told.items()}
        if len(self._rights) + len(found) > HTTP_RIGHTS_KEPT_MAX:
            self._rights.clear()
        if len(found) <= HTTP_RIGHTS_KEPT_MAX:
            self._rights |= {(resource, name): each for name, each in found.items()}
        return found
