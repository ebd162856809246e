"""A partition that a replica fetcher fetches, and the position of its fetch."""

from typing import NamedTuple
from uuid import UUID

from tailrace.machines.replica.follower import Position, next_position
from tailrace.runtime.partition import Partition
from tailrace.storage.retention import durable_start_offset

Key = tuple[UUID, int]


class Wanted(NamedTuple):
    """What a fetch says about one partition; the leader remembers it until it changes."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Followed:
    """A partition in one leader epoch."""

    __slots__ = (
        "_ahead",
        "_asked_offset",
        "failed_since_ms",
        "is_throttled",
        "is_told",
        "key",
        "leader_epoch",
        "partition",
        "retry_ms",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.retry_ms: float = 0
        self.is_throttled = False
        self.failed_since_ms: float | None = None  # when the first of the last fetches in a row failed
        self.is_told = False  # whether a warning about these failures was logged
        self._ahead: Position | None = None
        self._asked_offset = -1

    @property
    def is_current(self) -> bool:
        partition = self.partition
        return not partition.is_leader and not partition.is_retired and partition.leader_epoch == self.leader_epoch

    @property
    def is_awaited(self) -> bool:
        """Whether the fetch under way starts at the end of the log; not if it was sent ahead and the append failed."""
        return self.partition.log.log_end_offset == self._asked_offset

    @property
    def is_start_durable(self) -> bool:
        """Whether the log would start at the same offset after a crash; a fetch tells the leader that offset only."""
        return durable_start_offset(self.partition.log) == self.partition.log.log_start_offset

    def succeed(self) -> None:
        """Forget earlier failures."""
        self.failed_since_ms, self.is_told = None, False

    def expect(self, position: Position) -> None:
        """Start the next fetch at this offset, because the records before it have arrived and are being appended."""
        self._ahead = position

    def want(self) -> Wanted:
        """Return what the next fetch says."""
        storage = self.partition.log
        position, self._ahead = self._ahead or next_position(storage), None
        self._asked_offset = position.fetch_offset
        return Wanted(self.leader_epoch, *position, durable_start_offset(storage))
