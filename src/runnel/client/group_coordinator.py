"""The broker that keeps a group, or transactions: found when needed, looked for anew when it is another one."""

from collections.abc import Awaitable, Callable, Hashable
from enum import IntEnum
from typing import TypeVar

from runnel.client.cluster import SHARED_LANE, Cluster
from runnel.client.connection import Connection
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_ONE_KEY_VERSION_MAX = 3  # later ones ask for several at a time, which a member has no use for


class CoordinatorKind(IntEnum):
    """What a coordinator keeps, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        """The word for messages."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""What a broker answers that does not keep it, or not any more."""


class Coordinator:
    """Requests to whichever broker keeps a group, or the transactions of a producer."""

    def __init__(self, cluster: Cluster, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        self.cluster = cluster
        self.key = key
        self._kind = kind
        self._node_id: int | None = None

    @property
    def group_id(self) -> str:
        """The group, where it is one."""
        return self.key

    async def connection(self, lane: Hashable = SHARED_LANE) -> Connection:
        """The connection to the coordinator; raises a retriable error while there is none.

        One that cannot be reached is looked for anew the next time: for a while after its death brokers still name it.
        """
        node_id = await self.node_id()
        try:
            return await self.cluster.connection(node_id, lane)
        except (BrokerUnavailable, RequestTimeout):
            self.forget()
            raise

    async def node_id(self) -> int:
        """Which broker it is."""
        if self._node_id is None:
            self._node_id = await self._find()
        return self._node_id

    async def request(
        self,
        request: Message,
        reply_type: type[R],
        *,
        lane: Hashable = SHARED_LANE,
        version_max: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Ask the coordinator once. One that cannot be reached is looked for anew the next time."""
        try:
            connection = await self.connection(lane)
            return await connection.request(request, reply_type, version_max=version_max, timeout_ms=timeout_ms)
        except (BrokerUnavailable, RequestTimeout):
            self.forget()
            raise

    def check(self, error_code: int, doing: str, message: str | None = None) -> None:
        """Raise what the coordinator answered, if that is an error; with its own words if it has some."""
        if not error_code:
            return
        code = ErrorCode(error_code)
        if code in MOVED:
            self.forget()
        raise ApiError(code, message or f"{doing} {self._kind.noun} {self.key}")

    def forget(self) -> None:
        """Look for the coordinator before it is next asked."""
        self._node_id = None

    async def retry(self, action: Callable[[], Awaitable[T]], *, timeout_ms: float) -> T:
        """Run `action` until it succeeds, fails with what will not pass, or the time is up."""
        return await self.cluster.retry(action, timeout_ms=timeout_ms)

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self.key, key_type=self._kind)
        reply = await self.cluster.request_any(request, FindCoordinatorResponse, version_max=_ONE_KEY_VERSION_MAX)
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), reply.error_message or f"finding {self._kind.noun} {self.key}")
        if reply.node_id not in self.cluster.view.nodes:
            await self.cluster.refresh([])
        return reply.node_id
