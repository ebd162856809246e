"""The coordinator of a group or of transactions: found on first use, and again after it has moved."""

from collections.abc import Awaitable, Callable, Hashable
from enum import IntEnum
from typing import TypeVar

from tailrace.client.cluster import SHARED_LANE, Cluster
from tailrace.client.connection import Connection
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_ONE_KEY_VERSION_MAX = 3  # later versions find several at a time, which a member does not need


class CoordinatorKind(IntEnum):
    """Kinds of coordinators, with Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        """The noun in error messages."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""What a broker answers that does not keep it, or not any more."""


class Coordinator:
    """Requests to the coordinator of a group or of a transactional id."""

    def __init__(self, cluster: Cluster, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> None:
        self.cluster = cluster
        self.key = key
        self._kind = kind
        self._node_id: int | None = None

    @property
    def group_id(self) -> str:
        """The id of the group."""
        return self.key

    async def connection(self, lane: Hashable = SHARED_LANE) -> Connection:
        """Return the connection to the coordinator; raises a retriable error while there is none.

        If it cannot be reached the next call finds it again: brokers name a dead coordinator for a while.
        """
        node_id = await self.node_id()
        try:
            return await self.cluster.connection(node_id, lane)
        except (BrokerUnavailable, RequestTimeout):
            self.forget()
            raise

    async def node_id(self) -> int:
        """Return the id of the coordinator's broker."""
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
        """Send one request to the coordinator. If it cannot be reached the next call finds it again."""
        try:
            connection = await self.connection(lane)
            return await connection.request(request, reply_type, version_max=version_max, timeout_ms=timeout_ms)
        except (BrokerUnavailable, RequestTimeout):
            self.forget()
            raise

    def check(self, error_code: int, doing: str, message: str | None = None) -> None:
        """Raise the error of an answer, if it has one, with the coordinator's message."""
        if not error_code:
            return
        code = ErrorCode(error_code)
        if code in MOVED:
            self.forget()
        raise ApiError(code, message or f"{doing} {self._kind.noun} {self.key}")

    def forget(self) -> None:
        """Find the coordinator again before the next request."""
        self._node_id = None

    async def retry(self, action: Callable[[], Awaitable[T]], *, timeout_ms: float) -> T:
        """Run `action` until it succeeds, fails with an error that is not retriable, or the time is over."""
        return await self.cluster.retry(action, timeout_ms=timeout_ms)

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key=self.key, key_type=self._kind)
        reply = await self.cluster.request_any(request, FindCoordinatorResponse, version_max=_ONE_KEY_VERSION_MAX)
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code), reply.error_message or f"finding {self._kind.noun} {self.key}")
        if reply.node_id not in self.cluster.view.nodes:
            await self.cluster.refresh([])
        return reply.node_id
