"""Incremental fetch sessions (KIP-227), in which a consumer of many partitions names them once.

A request with epoch 0 requests a session; the reply carries its id. Later requests carry the id and
the next epoch, and name only the partitions whose position changed or that leave the session. The
reply names only the partitions with changes. Epoch -1 ends a session. A request with a wrong epoch is
rejected as a whole, and the client starts again at 0.

    request (id, epoch)      answer
    (0, -1) or (id, -1)      full fetch; session `id`, if any, is closed
    (0, 0) or (id, 0)        full fetch; `id` is closed, a new session opens if a slot is free
    (id, n)                  incremental fetch; 70 if there is no such session, 71 if n is not next

A follower has one session, for which there is always room: it replaces the follower's previous session.

A session keeps its partitions after the client is gone, whether or not they exist. So the partitions of one client's
session and of all of them are bounded. A session that grows beyond the bounds is closed.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.base.request_limits import FETCH_SESSION_PARTITIONS_MAX
from tailrace.protocol.errors import ApiError, ErrorCode

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1

Key = tuple[Hashable, int]
"""A topic, by name or id as in the request, and a partition."""


class FetchPartition:
    """The position that a client requests in one partition, and the offsets last sent to it."""

    __slots__ = ("high_watermark_sent", "key", "log_start_sent", "wanted")

    def __init__(self, key: Key, wanted: Any) -> None:
        self.key = key
        self.wanted = wanted
        self.high_watermark_sent = -1
        self.log_start_sent = -1

    def has_news(self, error_code: int, size_bytes: int, high_watermark: int, log_start_offset: int) -> bool:
        """Return whether an incremental reply must include this partition."""
        return (
            error_code != 0
            or size_bytes > 0
            or high_watermark != self.high_watermark_sent
            or log_start_offset != self.log_start_sent
        )

    def told(self, error_code: int, high_watermark: int, log_start_offset: int) -> None:
        """Store the offsets that a reply sends to the client."""
        # After an error, the next reply must include the offsets again.
        self.high_watermark_sent = -1 if error_code else high_watermark
        self.log_start_sent = -1 if error_code else log_start_offset


class Closing(Protocol):
    """An object that is closed with a session."""

    def close(self) -> None: ...


class FetchSession:
    """The partitions that one client fetches."""

    def __init__(self, session_id: int, uses_topic_ids: bool, now_ms: int, owner: Hashable | None = None) -> None:
        self.owner = owner
        self.attached: Closing | None = None
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.used_ms = now_ms
        self.partitions: dict[Key, FetchPartition] = {}

    def update(self, wanted: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        for partition in wanted:
            if known := self.partitions.get(partition.key):
                known.wanted = partition.wanted
            else:
                self.partitions[partition.key] = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def served(self, keys: Iterable[Key]) -> None:
        """Move partitions that got data to the end, so that the others come first next time."""
        for key in keys:
            if partition := self.partitions.pop(key, None):
                self.partitions[key] = partition


class FetchContext:
    """The partitions and the session of one fetch request."""

    def __init__(
        self, partitions: Sequence[FetchPartition] | None, session: FetchSession | None, incremental: bool
    ) -> None:
        """With None for `partitions`, those of the session are used."""
        self._partitions = partitions
        self.session = session
        self.incremental = incremental

    @property
    def partitions(self) -> Sequence[FetchPartition]:
        """The requested partitions, collected on demand, because a follower has thousands without changes."""
        if self._partitions is None:
            self._partitions = () if self.session is None else tuple(self.session.partitions.values())
        return self._partitions

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session else 0


class FetchSessions:
    """All sessions of a broker, at most `slot_count_max` of them."""

    def __init__(
        self,
        slot_count_max: int,
        eviction_ms: int,
        new_id: Callable[[], int],
        partition_count_max: int = FETCH_SESSION_PARTITIONS_MAX,
        session_partition_count_max: int = REQUEST_ELEMENTS_MAX,
    ) -> None:
        self._slot_count_max = slot_count_max
        self._partition_count_max = partition_count_max
        self._session_partition_count_max = session_partition_count_max
        self._partition_count = 0  # in the sessions of clients
        self._eviction_ms = eviction_ms
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._owned: dict[Hashable, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        now_ms: int,
        session_id: int,
        epoch: int,
        wanted: Sequence[FetchPartition],
        forgotten: Iterable[Key],
        uses_topic_ids: bool,
        owner: Hashable | None = None,
    ) -> FetchContext:
        """Find, open or close the session of a request; `owner` is the follower that sent it."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._close(self._sessions.get(session_id))
            session = self._open(now_ms, wanted, uses_topic_ids, owner) if epoch == INITIAL_EPOCH else None
            return FetchContext(wanted, session, incremental=False)
        session = self._in_step(session_id, epoch, uses_topic_ids)
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        self._touch(session, now_ms)
        self._update(session, wanted, forgotten)
        if not session.partitions:
            self._close(session)
            return FetchContext((), None, incremental=False)
        return FetchContext(None, session, incremental=True)

    def _in_step(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no fetch session {session_id}")
        if epoch != session.epoch:
            message = f"fetch session {session_id} expects epoch {session.epoch}, got {epoch}"
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message)
        if session.uses_topic_ids != uses_topic_ids:
            message = "a fetch session uses either topic names or topic ids"
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, message)
        return session

    def _open(
        self, now_ms: int, wanted: Sequence[FetchPartition], uses_topic_ids: bool, owner: Hashable | None
    ) -> FetchSession | None:
        if owner is not None:
            self._close(self._owned.get(owner))
        if not wanted or (owner is None and not self._make_room(now_ms, len(wanted))):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == 0:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, now_ms, owner)
        if owner is not None:
            self._owned[owner] = session
        self._update(session, wanted, ())
        return session

    def _update(self, session: FetchSession, wanted: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        former_count = len(session.partitions)
        session.update(wanted, forgotten)
        if session.owner is not None:
            return
        self._partition_count += len(session.partitions) - former_count
        is_too_large = len(session.partitions) > self._session_partition_count_max
        if is_too_large or self._partition_count > self._partition_count_max:
            self._close(session)
            message = f"fetch session {session.session_id} was closed, because it has too many partitions"
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)

    def _make_room(self, now_ms: int, partition_count: int) -> bool:
        """Evict sessions that were not used for long until one with so many partitions fits, or return False."""
        if self._slot_count_max == 0 or partition_count > self._partition_count_max:
            return False
        while (
            len(self._sessions) >= self._slot_count_max
            or self._partition_count + partition_count > self._partition_count_max
        ):
            # `_touch` keeps the dictionary in the order of last use.
            stalest = next((session for session in self._sessions.values() if session.owner is None), None)
            if stalest is None or now_ms - stalest.used_ms <= self._eviction_ms:
                return False
            self._close(stalest)
        return True

    def _close(self, session: FetchSession | None) -> None:
        if session is None:
            return
        del self._sessions[session.session_id]
        if session.owner is not None:
            del self._owned[session.owner]
        else:
            self._partition_count -= len(session.partitions)
        if session.attached is not None:
            session.attached.close()

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
