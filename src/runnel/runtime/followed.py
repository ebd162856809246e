"""A partition that a fetcher fetches, and how far it has asked for it."""

from typing import NamedTuple
from uuid import UUID

from runnel.machines.replica.follower import Position, next_position
from runnel.runtime.partition import Partition

Key = tuple[UUID, int]


class Wanted(NamedTuple):
    """What is asked of one partition; the leader remembers it until something of it changes."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class Followed:
    """A partition in one leader epoch."""

    __slots__ = ("_ahead", "_asked_offset", "is_throttled", "is_told", "key", "leader_epoch", "partition", "retry_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.index)
        self.leader_epoch = partition.leader_epoch
        self.retry_ms: float = 0
        self.is_throttled = False
        self.is_told = False  # whether the log file knows of its trouble
        self._ahead: Position | None = None
        self._asked_offset = -1

    @property
    def is_current(self) -> bool:
        partition = self.partition
        return not partition.is_leader and not partition.is_retired and partition.leader_epoch == self.leader_epoch

    @property
    def is_awaited(self) -> bool:
        """Whether the log ends where the fetch on its way begins; not if it was ahead of what could be appended."""
        return self.partition.log.log_end_offset == self._asked_offset

    def expect(self, position: Position) -> None:
        """Ask from there next, because what is before is here and about to be appended."""
        self._ahead = position

    def want(self) -> Wanted:
        """What to ask for now."""
        storage = self.partition.log
        position, self._ahead = self._ahead or next_position(storage), None
        self._asked_offset = position.fetch_offset
        return Wanted(self.leader_epoch, *position, storage.log_start_offset)
