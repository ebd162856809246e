"""The shell around `LeaderReplica`: a leader's work when a follower fetches and when records are appended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tailrace.base.clock import Clock
from tailrace.base.invariant import InvariantError, invariant
from tailrace.machines.controller.record import PartitionRecord
from tailrace.machines.replica.leader import Beat, LeaderReplica
from tailrace.protocol.errors import ErrorCode
from tailrace.runtime.offset_wait import OffsetReached, OffsetWaits
from tailrace.storage.retention import durable_start_offset

if TYPE_CHECKING:
    from tailrace.runtime.partition import Partition

MANY_BYTES = 2**31
"""More than any waiting fetch needs."""


class IsrDesk(Protocol):
    """Writes changes of an ISR to the metadata store."""

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker may be in an ISR in this broker epoch."""
        ...

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is alive."""
        ...

    def watch(self, partition: "Partition") -> None:
        """Check the ISR of a partition periodically, until all followers are in sync and have all records."""
        ...

    def propose(self, partition: "Partition", isr: tuple[int, ...]) -> None:
        """Propose an ISR; the image will tell the outcome."""
        ...


@dataclass(frozen=True, slots=True)
class ReplicaWorld:
    """What all partitions of a broker share."""

    broker_id: int
    clock: Clock
    lag_max_ms: int
    desk: IsrDesk


class Leadership:
    """The leader of a partition with its followers, in one leader epoch."""

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
        # The end of this broker's own log that counts: only what is flushed, if flush.messages requires that.
        self.own_end_offset = partition.log.log_end_offset if partition.flush_end is None else partition.high_watermark
        # Bytes between the high watermark and `own_end_offset`.
        self._unread_bytes = 0
        self.is_watched = False  # whether the ISR is checked periodically
        self._deletions: OffsetWaits | None = None  # requests that wait until all replicas have deleted records
        self.machine = LeaderReplica(
            world.broker_id,
            record.leader_epoch,
            replicas=replicas,
            isr=record.isr,
            elr=record.elr,
            epoch_start_offset=partition.role.epoch_start_offset,
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
        """Apply a change of the image in the same leader epoch."""
        self.machine.on_assignment(replicas)
        self.machine.on_min_isr(self._partition.config.min_insync_replicas)
        # Other partitions of the topic may have changed; only a new state of this one ends its pending change.
        if record is not self._record:
            self._record = record
            self.machine.on_isr(record.isr, record.elr)
        self._watch()
        self.end_deletions()

    def wrote(self, end_offset: int, size_bytes: int) -> None:
        """Note an append to this broker's own log."""
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
        """Note that a follower has all records below `fetch_offset`; `beat` is its fetch session."""
        partition, world = self._partition, self._world
        now_ms = world.clock.monotonic_ms()
        end_offset = partition.log.log_end_offset
        self.machine.on_fetch(follower_id, broker_epoch, fetch_offset, log_start_offset, end_offset, now_ms, beat)
        if fetch_offset < end_offset:
            self._watch()
        self.settle()
        self.end_deletions()
        if follower_id not in self.machine.isr:
            self._let_join(follower_id)

    @property
    def is_complete(self) -> bool:
        """Whether all followers are in sync and have all records."""
        return self.machine.is_complete(self._partition.log.log_end_offset)

    def grow(self) -> None:
        """Propose an ISR with each follower that has all records and could not join at its last fetch.

        In a partition without new records such a follower would otherwise never join, for example if it was admitted
        late or an earlier change of the ISR failed. One that has stopped fetching may not: it would join again as soon
        as it has left the ISR, if the leader's high watermark has not moved yet.
        """
        now_ms = self._world.clock.monotonic_ms()
        for follower_id in self.machine.followers:
            if self.machine.is_fetching(follower_id, now_ms):
                self._let_join(follower_id)

    @property
    def low_watermark(self) -> int:
        """The offset from which all replicas have the log that are live or may be elected, even after a crash."""
        return self.machine.low_watermark(durable_start_offset(self._partition.log), self._world.desk.is_live)

    def when_deleted(self, offset: int) -> OffsetReached | None:
        """Return what to wait for until no live or electable replica has anything below `offset`; None if none has."""
        if self.low_watermark >= offset:
            return None
        if self._deletions is None:
            self._deletions = OffsetWaits()
        return self._deletions.add(offset)

    def end_deletions(self) -> None:
        """Wake the requests whose records have been deleted everywhere."""
        if self._deletions is not None:
            self._deletions.reach(self.low_watermark)

    def end(self, code: ErrorCode | None) -> None:
        """Fail the waits for followers, because another broker leads or there are no followers any longer."""
        if self._deletions is not None:
            self._deletions.fail(code)

    def _let_join(self, follower_id: int) -> None:
        is_eligible = self._world.desk.is_eligible
        partition = self._partition
        start_offset = partition.log.log_start_offset
        isr = self.machine.decide_join(follower_id, partition.high_watermark, is_eligible, start_offset)
        if isr is not None:
            self._propose(isr)

    def shrink(self) -> None:
        """Propose an ISR without followers that do not keep up."""
        isr = self.machine.decide_shrink(self._partition.log.log_end_offset, self._world.clock.monotonic_ms())
        if isr is not None:
            self._propose(isr)

    def _propose(self, isr: tuple[int, ...]) -> None:
        try:
            self.machine.begin(isr)
        except InvariantError as error:
            self._partition.go_offline(error)
            return
        self._world.desk.propose(self._partition, isr)

    def settle(self) -> None:
        """Advance the high watermark as far as possible."""
        partition, own_end = self._partition, self.own_end_offset
        before = partition.high_watermark
        offset = self.machine.committed_offset(own_end, self._world.desk.is_eligible, self._world.clock.monotonic_ms())
        if offset <= before:
            return
        invariant(offset <= own_end, "records are committed that their leader does not have")
        if before < partition.role.epoch_start_offset:
            size_bytes = MANY_BYTES  # records from before this broker became leader, whose bytes were not counted
        else:
            # The exact number would need a read of the log; an estimate is enough to wake fetches.
            size_bytes = self._unread_bytes * (offset - before) // max(own_end - before, 1)
            self._unread_bytes -= size_bytes
        partition.advance_high_watermark(offset, size_bytes)
