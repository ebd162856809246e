"""The shell around `LeaderReplica`: what a leader does when a follower fetches and when something is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runnel.base.clock import Clock
from runnel.machines.controller.record import PartitionRecord
from runnel.machines.replica.leader import Beat, LeaderReplica
from runnel.protocol.errors import ErrorCode
from runnel.runtime.commit_wait import CommitEnd, CommitWaits

if TYPE_CHECKING:
    from runnel.runtime.partition import Partition

MANY_BYTES = 2**31
"""Enough for every reader who waits."""


class IsrDesk(Protocol):
    """Who carries changes of an ISR to the metadata store."""

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker may be in an ISR in that epoch of its."""
        ...

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is there."""
        ...

    def watch(self, partition: "Partition") -> None:
        """Look at the ISR of a partition now and then, until all followers are in sync and have everything."""
        ...

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        """Have the ISR changed; the image will tell."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaWorld:
    """What all partitions of a broker share."""

    broker_id: int
    clock: Clock
    lag_max_ms: int
    desk: IsrDesk


class Leadership:
    """One partition's leader with its followers, in one leader epoch."""

    __slots__ = (
        "_deletions",
        "_partition",
        "_record",
        "_unread_bytes",
        "_world",
        "is_watched",
        "machine",
        "own_end_offset",
    )

    def __init__(
        self, partition: "Partition", world: ReplicaWorld, record: PartitionRecord, replicas: Sequence[int]
    ) -> None:
        self._partition = partition
        self._world = world
        self._record = record
        # How far this broker itself counts: to the end, or only to what was flushed where that is demanded.
        self.own_end_offset = partition.log.log_end_offset if partition.flush_end is None else partition.high_watermark
        # Bytes between the high watermark and the own end.
        self._unread_bytes = 0
        self.is_watched = False  # whether somebody looks at the ISR now and then
        self._deletions: CommitWaits | None = None  # those who wait until all replicas begin somewhere
        self.machine = LeaderReplica(
            world.broker_id,
            record.leader_epoch,
            replicas=replicas,
            isr=record.isr,
            elr=record.elr,
            epoch_start_offset=partition.epoch_start_offset,
            min_isr=partition.config.min_insync_replicas,
            lag_max_ms=world.lag_max_ms,
            now_ms=world.clock.monotonic_ms(),
        )
        self._watch()

    def _watch(self) -> None:
        if not self.is_watched:
            self.is_watched = True
            self._world.desk.watch(self._partition)

    def update(self, record: PartitionRecord, replicas: Sequence[int]) -> None:
        """The image tells something new of the same epoch."""
        self.machine.on_assignment(replicas)
        self.machine.on_min_isr(self._partition.config.min_insync_replicas)
        # The topic may have changed elsewhere; only a new state of this partition ends a change that is under way.
        if record is not self._record:
            self._record = record
            self.machine.on_isr(record.isr, record.elr)
        self._watch()
        self._end_deletions()

    def wrote(self, end_offset: int, size_bytes: int) -> None:
        """The log has grown by so many bytes."""
        self._watch()
        self.machine.on_append(self.own_end_offset)
        self.own_end_offset = end_offset
        self._unread_bytes += size_bytes
        self.settle()

    def on_fetch(
        self,
        follower_id: int,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        beat: Beat | None = None,
    ) -> None:
        """A follower has everything below `fetch_offset`; `beat` is the session that it fetches in."""
        partition, world = self._partition, self._world
        now_ms = world.clock.monotonic_ms()
        end_offset = partition.log.log_end_offset
        self.machine.on_fetch(follower_id, broker_epoch, fetch_offset, log_start_offset, end_offset, now_ms, beat)
        if fetch_offset < end_offset:
            self._watch()
        self.settle()
        self._end_deletions()
        if follower_id not in self.machine.isr:
            self._let_join(follower_id)

    @property
    def is_complete(self) -> bool:
        """Whether all followers are in sync and have everything."""
        return self.machine.is_complete(self._partition.log.log_end_offset)

    def grow(self) -> None:
        """Ask for an ISR with a follower that has everything and could not join when it last had news.

        A follower of a quiet partition has none, so it would wait for ever to be let in after it was admitted late,
        or after a change of the ISR came to nothing.
        """
        for follower_id in self.machine.followers:
            self._let_join(follower_id)

    @property
    def low_watermark(self) -> int:
        """From where on all replicas that live have the log."""
        return self.machine.low_watermark(self._partition.log.log_start_offset, self._world.desk.is_live)

    def when_deleted(self, offset: int) -> CommitEnd | None:
        """What to wait for until no replica that lives has anything below `offset`; None if none has."""
        if self.low_watermark >= offset:
            return None
        if self._deletions is None:
            self._deletions = CommitWaits()
        return self._deletions.add(offset)

    def _end_deletions(self) -> None:
        if self._deletions is not None:
            self._deletions.reach(self.low_watermark)

    def end(self, code: ErrorCode | None) -> None:
        """Another leads, or there are no followers any more; who waits for them hears why."""
        if self._deletions is not None:
            self._deletions.fail(code)

    def _let_join(self, follower_id: int) -> None:
        is_eligible = self._world.desk.is_eligible
        isr = self.machine.decide_join(follower_id, self._partition.high_watermark, is_eligible)
        if isr is not None:
            self._propose(isr)

    def shrink(self) -> None:
        """Ask for an ISR without those who do not keep up."""
        isr = self.machine.decide_shrink(self._partition.log.log_end_offset, self._world.clock.monotonic_ms())
        if isr is not None:
            self._propose(isr)

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.machine.begin(isr)
        self._world.desk.propose(self._partition, isr)

    def settle(self) -> None:
        """Move the high watermark as far as it may."""
        partition, own_end = self._partition, self.own_end_offset
        before = partition.high_watermark
        offset = self.machine.committed_offset(own_end, self._world.desk.is_eligible, self._world.clock.monotonic_ms())
        if offset <= before:
            return
        if before < partition.epoch_start_offset:
            size_bytes = MANY_BYTES  # they were there when this broker became leader, and nobody has counted them
        else:
            # Which bytes these are nobody knows without reading; readers who wait for some are content with a guess.
            size_bytes = self._unread_bytes * (offset - before) // max(own_end - before, 1)
            self._unread_bytes -= size_bytes
        partition.advance(offset, size_bytes)
