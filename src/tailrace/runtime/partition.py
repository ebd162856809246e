"""A partition on this broker: its log, its high watermark, and what its role makes of them.

Theory of operation. The image says which broker leads; `Replicas` tells each partition with `lead` or `follow`, and
the partition keeps that as its `Role`. A leader takes records (`Appender`) and serves all clients. Where it is the
only replica, its high watermark is the end of its log. Where it has followers, `Leadership` says how far it is. A
follower's log is written by its fetcher, and consumers may read it up to the high watermark that the leader has told.
Consumers, followers and requests that wait for something here are its `Waiters`.

An invariant that fails here is a bug, after which the replica cannot be trusted. It goes offline, as if its disk had
failed: it answers KAFKA_STORAGE_ERROR until the broker restarts, and another replica is elected if one is in sync.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from uuid import UUID

from tailrace.base.invariant import InvariantError
from tailrace.config.topic import TopicConfig
from tailrace.machines.controller.record import PartitionRecord
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader
from tailrace.runtime.append import Appended, Appender, TransactionMarker
from tailrace.runtime.lease import Lease
from tailrace.runtime.log.shared_flush import FlushEnd
from tailrace.runtime.offset_wait import OffsetReached
from tailrace.runtime.replication.leadership import MANY_BYTES, Leadership, ReplicaWorld
from tailrace.runtime.replication.role import Role
from tailrace.runtime.transaction.guard import FirstBatch, TransactionGuard, TransactionGuards
from tailrace.runtime.waiter import Waiters
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.producer_state import ProducerEntry
from tailrace.storage.replica_append import FoundBatches, append_replicated
from tailrace.storage.retention import durable_start_offset
from tailrace.storage.timestamp_lookup import LookupOvertaken, TimestampOffset

log = logging.getLogger("tailrace.runtime")

_ALL_READABLE = -1
"""What an administrator asks DeleteRecords for, to delete everything below the high watermark."""


class Partition:
    """One replica of one partition."""

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        storage: Log,
        config: TopicConfig,
        worker: Executor | None = None,
        *,
        high_watermark: int | None = None,
        lease: Lease | None = None,
        moved: "set[Partition] | None" = None,
    ) -> None:
        """`worker` waits for the disk, in lookups by time and where `flush.messages` wants a flush.

        `high_watermark` is the one that was checkpointed; None if it is the end of the log. Without a `lease` no other
        broker can be elected. `moved` takes the partition in when its high watermark has to be checkpointed again.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = storage
        self.config = config
        self.role = Role()
        end_offset = storage.log_end_offset
        # Only committed records are deleted, so the checkpoint is out of date if it is below the log start.
        known = end_offset if high_watermark is None else min(high_watermark, end_offset)
        self.high_watermark = max(known, storage.log_start_offset)
        self.leadership: Leadership | None = None
        """What this broker knows of its followers; None where it has none or does not lead."""
        self.on_retention: Callable[[], None] | None = None
        """Called when retention has moved the log start of a follower; its fetcher sets it."""
        self.waiters = Waiters()
        self.guards = TransactionGuards()
        self._appender = Appender(self, worker)
        self._worker = worker
        self._lease = lease
        self._moved = moved
        self._is_broken = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a reader of committed records may read; open transactions hold it back."""
        return self.log.last_stable_offset(self.high_watermark)

    # --- the role

    @property
    def leader_id(self) -> int:
        return self.role.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.role.leader_epoch

    @property
    def isr(self) -> tuple[int, ...]:
        return self.role.isr

    @property
    def is_leader(self) -> bool:
        return self.role.is_leader

    @property
    def is_replicated(self) -> bool:
        return self.role.is_replicated

    @property
    def is_retired(self) -> bool:
        return self.role.is_retired

    @property
    def is_offline(self) -> bool:
        """Whether the disk of the log has failed, or a bug has stopped this replica."""
        return self._is_broken or self.log.folder.is_offline

    @property
    def is_settled(self) -> bool:
        """Whether the high watermark has passed what was in the log when this broker became leader."""
        return self.high_watermark >= self.role.epoch_start_offset

    @property
    def is_sure_to_lead(self) -> bool:
        """Whether no other broker can have been elected; without that the leader acknowledges nothing."""
        return self.role.is_leader and not self._is_broken and (self._lease is None or self._lease.is_held)

    def lead(self, record: PartitionRecord, replicas: Sequence[int], world: ReplicaWorld) -> None:
        """Become leader, or take in a change of the followers."""
        try:
            self._lead(record, replicas, world)
        except InvariantError as error:
            self.go_offline(error)

    def _lead(self, record: PartitionRecord, replicas: Sequence[int], world: ReplicaWorld) -> None:
        before = self.role
        if before.is_retired:
            return
        min_isr = self.config.min_insync_replicas
        role = self.role = before.lead(record, len(replicas), min_isr, self.log.log_end_offset)
        self._note_move()
        if not role.is_same_term(before):
            self._drop_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._is_broken:
            return
        if len(replicas) == 1 and len(record.isr) == 1:
            self._drop_leadership(None)
            if self.flush_end is None:
                self._raise_high_watermark(self.log.log_end_offset, 0)
        elif self.leadership is None:
            self.leadership = Leadership(self, world, record, replicas)
            self.leadership.settle()
        else:
            self.leadership.update(record, replicas)
            self.leadership.settle()
        if len(role.isr) < role.min_isr:
            # The high watermark stands still now, for an unknown time.
            self.waiters.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def follow(self, record: PartitionRecord) -> None:
        """Become a follower of another broker, or of none while there is no leader."""
        try:
            self._follow(record)
        except InvariantError as error:
            self.go_offline(error)

    def _follow(self, record: PartitionRecord) -> None:
        before = self.role
        self.role = before.follow(record)
        self._note_move()
        if before.is_retired or self.role.is_same_term(before):
            return
        self.guards.clear()
        self._stop_serving(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def retire(self) -> None:
        """Take no more records, because the replica is deleted; some requests still hold this partition."""
        self.role = self.role.retire()
        self._stop_serving(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def go_offline(self, error: InvariantError) -> None:
        """Serve no more requests and take no more records, because of a bug."""
        if self._is_broken:
            return
        self._is_broken = True
        log.critical(
            "%s goes offline after a bug in Tailrace, until the broker restarts: %s",
            *(self.name, error),
            exc_info=error,
            stack_info=True,
        )
        self._stop_serving(ErrorCode.KAFKA_STORAGE_ERROR)

    def _stop_serving(self, code: ErrorCode) -> None:
        self._drop_leadership(code)
        self.waiters.fail(code)
        self.waiters.disturb()

    def _drop_leadership(self, code: ErrorCode | None) -> None:
        leadership, self.leadership = self.leadership, None
        if leadership is not None:
            leadership.end(code)

    def _note_move(self) -> None:
        if self._moved is not None:
            self._moved.add(self)

    # --- checks of requests

    def check_leader(self, current_leader_epoch: int) -> None:
        """Reject a request that another broker should get, or that knows of another leader epoch."""
        self.check_leader_epoch(current_leader_epoch)
        if not self.role.is_leader:
            raise self._refusal()

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Reject a request whose metadata is older or newer than this replica's, or that no replica here can serve."""
        self.role.check_leader_epoch(current_leader_epoch)
        if self._is_broken:
            raise self._refusal()

    def check_writable(self, acks: int) -> None:
        """Reject records if this broker may not be the leader, or has too few replicas in sync."""
        if not self.is_sure_to_lead:
            raise self._refusal()
        self.role.check_in_sync(acks)

    def _refusal(self) -> ApiError:
        if self.role.is_retired:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has been deleted")
        if self.is_offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is offline on this broker")
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.role.leader_id} leads {self.name}")

    # --- leading

    def append(
        self, batch: memoryview, header: BatchHeader, acks: int, now_ms: int, guard: TransactionGuard | None = None
    ) -> Appended:
        """Append one valid batch, or find that it was appended before; `acknowledge` says when to tell the client.

        `guard` is what `begin_transaction` gave for a batch whose coordinator had to be asked.
        """
        try:
            return self._appender.append(batch, header, acks, now_ms, guard)
        except InvariantError as error:
            self.go_offline(error)
            raise self._refusal() from error

    def find_appended(self, header: BatchHeader) -> Appended | None:
        """Return where a batch is that was appended before; None if it is unknown, or is to be rejected."""
        return self._appender.find(header)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """Append the end of a transaction, for all replicas in sync; return the offset behind it."""
        try:
            return self._appender.append_marker(marker, now_ms)
        except InvariantError as error:
            self.go_offline(error)
            raise self._refusal() from error

    def append_mirrored(self, data: memoryview, from_offset: int) -> int:
        """Append another cluster's batches at their offsets; return the offset behind them."""
        try:
            return self._appender.append_mirrored(data, from_offset)
        except InvariantError as error:
            self.go_offline(error)
            raise self._refusal() from error

    def begin_transaction(self, batch: FirstBatch, *, is_adding: bool, now_ms: int) -> TransactionGuard | None:
        """Return the guard that a transactional batch needs; None if its coordinator need not be asked."""
        self.check_leader(self.role.leader_epoch)
        entry = self.log.producers.entries.get(batch.producer_id)
        return self.guards.begin(entry, batch, is_adding=is_adding, now_ms=now_ms)

    @property
    def flush_end(self) -> FlushEnd | None:
        """The end of the flush that an acknowledgement of all appends so far waits for; None if there is none."""
        return self._appender.flush_end

    def wrote(self, end_offset: int, size_bytes: int) -> None:
        """Count what this broker has appended, up to `end_offset`, and need not flush before it is acknowledged."""
        if self.leadership is None:
            self._raise_high_watermark(end_offset, size_bytes)  # a single replica is all replicas
        else:
            self.leadership.wrote(end_offset, size_bytes)

    def flushed(self, end_offset: int, size_bytes: int) -> None:
        """Count what was appended and is flushed now; this broker may have ceased to lead meanwhile."""
        try:
            if self.role.is_leader and not self._is_broken:
                self.wrote(end_offset, size_bytes)
        except InvariantError as error:
            self.go_offline(error)

    def high_watermark_reached(self, offset: int) -> OffsetReached | None:
        """Return what to wait for until the high watermark reaches `offset`; None if it has."""
        return None if self.high_watermark >= offset else self.waiters.add_high_watermark(offset)

    def advance_high_watermark(self, offset: int, size_bytes: int) -> None:
        """Advance the high watermark of a partition with other replicas, and have it checkpointed."""
        end_offset = self.log.log_end_offset
        if offset > end_offset:
            self.go_offline(
                InvariantError(f"{self.name}: high watermark {offset} above the log end offset {end_offset}")
            )
            return
        self._raise_high_watermark(offset, size_bytes)
        self._note_move()

    def _raise_high_watermark(self, offset: int, size_bytes: int) -> None:
        """Advance the high watermark to `offset` and wake the readers; about `size_bytes` become readable."""
        if offset > self.high_watermark:  # noqa: PLR1730  each append comes here, and a call of max costs more
            self.high_watermark = offset
        self.log.producers.acknowledge(self.high_watermark)
        self.waiters.reach(self.high_watermark)
        if self.waiters.readers:
            self.waiters.readable(size_bytes)

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below `before_offset`, or with -1 below the high watermark; return up to where."""
        if not self.role.is_leader or self._is_broken:
            raise self._refusal()
        if before_offset == _ALL_READABLE:
            before_offset = self.high_watermark
        if not 0 <= before_offset <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark of {self.name} is {self.high_watermark}")
        if before_offset > self.log.log_start_offset:
            self.log.advance_log_start(before_offset)
            # The reply waits until the followers have deleted them, too.
            self.waiters.disturb_followers()
        return before_offset

    @property
    def low_watermark(self) -> int:
        """The offset from which all live replicas have the log, even after a crash, as far as this broker knows."""
        return durable_start_offset(self.log) if self.leadership is None else self.leadership.low_watermark

    def confirm_deletion(self, offset: int) -> None:
        """Take in a checkpoint of log starts; raise an error if a crash of this broker could still undo a deletion."""
        if durable_start_offset(self.log) < offset:
            is_unsaved = self.role.is_leader and not self.is_offline
            text = f"the log start of {self.name} could not be written"
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, text) if is_unsaved else self._refusal()
        if self.leadership is not None:
            self.leadership.end_deletions()

    # --- following

    def append_replicated(
        self, data: bytearray | memoryview, leader_epoch: int, batches: FoundBatches | None = None
    ) -> int:
        """Append the batches that the leader of an epoch sent; return how many bytes were appended.

        Raises `CorruptBatch` and `StorageError`, perhaps after some of it was appended.
        """
        self._check_following()
        size_bytes = append_replicated(self.log, data, leader_epoch, batches)
        if size_bytes and self.waiters.followers:
            self.waiters.appended(size_bytes)
        return size_bytes

    def truncate_to(self, offset: int, *, is_full: bool = False, producers: Sequence[ProducerEntry] = ()) -> None:
        """Truncate the log to agree with the leader's; with `is_full` begin it again at `offset`.

        `producers` are those that the leader knows from the records below, which it has deleted.
        """
        self._check_following()
        if is_full:
            self.log.truncate_fully(offset, producers)
            if offset > self.high_watermark:
                # The leader's log starts there: it has deleted the records below, so they were committed.
                self.advance_high_watermark(offset, 0)
        else:
            self.log.truncate_to(offset)
        if self.log.log_end_offset < self.high_watermark:
            log.warning(
                "%s: truncated to offset %d after an unclean election; committed records up to offset %d are lost",
                *(self.name, self.log.log_end_offset, self.high_watermark),
            )
            self.high_watermark = self.log.log_end_offset
            self._note_move()

    def learn(self, high_watermark: int, log_start_offset: int) -> None:
        """Apply what the leader says about its log: its high watermark and its log start offset."""
        self._check_following()
        offset = min(high_watermark, self.log.log_end_offset)
        if offset > self.high_watermark:
            self.advance_high_watermark(offset, MANY_BYTES)
        if log_start_offset > self.log.log_start_offset:
            self.log.advance_log_start(min(log_start_offset, self.high_watermark))

    def _check_following(self) -> None:
        """Stop the fetcher of a replica that must not be written by it; the fetcher handles a StorageError."""
        if self.role.is_leader:
            self.go_offline(InvariantError(f"{self.name} is led here and written by a fetcher"))
        if self._is_broken:
            raise StorageError(self.log.directory, OSError(f"{self.name} is offline"))

    # --- either

    async def find_by_time(self, timestamp_ms: int | None) -> TimestampOffset | None:
        """Find the first record at or after a time, or with None the newest; the disk is read in a worker thread."""
        while True:
            lookup = self.log.begin_lookup(timestamp_ms)
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._worker, lookup.run)
            except LookupOvertaken:
                if self.role.is_retired:
                    raise self._refusal() from None
                continue
            if found is None or found.offset >= self.log.log_start_offset:
                return found

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments, which followers learn with their next fetch. Return how many."""
        log_start_offset = self.log.log_start_offset
        deleted_count = self.log.apply_retention(now_ms, self.high_watermark)
        if self.log.log_start_offset != log_start_offset:
            self.waiters.readable(0)
            if self.on_retention is not None and not self.is_leader:
                self.on_retention()
        return deleted_count
