"""A partition on this broker: its log, its role, its watermarks, and who waits for them.

Theory of operation. The image says who leads; `Replicas` tells each partition with `lead` or `follow`. A leader
takes records and serves everybody. Where it is the only replica, what is written is committed, on the shortest
way. Where it has followers, `Leadership` says how far it is. A follower's log is written by its fetcher, and
consumers may read it up to what it knows to be committed.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple, Protocol
from uuid import UUID

from runnel.config.topic import TopicConfig
from runnel.machines.controller.record import NO_BROKER, PartitionRecord
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import NO_SEQUENCE, BatchHeader, read_header, set_log_append_time
from runnel.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from runnel.runtime.commit_wait import CommitEnd, CommitWaits
from runnel.runtime.group_commit import FlushEnd, GroupCommit
from runnel.runtime.leadership import MANY_BYTES, Leadership, ReplicaWorld
from runnel.runtime.lease import Lease
from runnel.runtime.transaction_guard import FirstBatch, TransactionGuard, TransactionGuards
from runnel.storage.error import StorageError
from runnel.storage.log import Log
from runnel.storage.producer_replay import recall_batches
from runnel.storage.producer_state import Duplicate
from runnel.storage.replica_append import FoundBatches, append_replicated
from runnel.storage.timestamp_lookup import LookupOvertaken, TimestampOffset

log = logging.getLogger("runnel.runtime")

ACKS_ALL = -1
NO_TIMESTAMP = -1
NO_EPOCH = -1


class AppendWaiter(Protocol):
    """Somebody who waits for records that consumers may read."""

    def appended(self, size_bytes: int) -> None:
        """So many bytes have become readable."""
        ...

    def disturbed(self) -> None:
        """Something else happened that makes waiting pointless."""
        ...


class Appended(NamedTuple):
    """Where a batch landed."""

    base_offset: int
    log_append_time: int


class TransactionMarker(NamedTuple):
    """How the transaction of a producer ends, as its coordinator or an administrator says."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    is_commit: bool


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

        `high_watermark` is what was known to be committed; None where that is all there is. Without a `lease` nobody
        else can be elected. `moved` takes the partition in when its high watermark has to be written down again.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = storage
        self.config = config
        self.leader_id = NO_BROKER
        self.leader_epoch = NO_EPOCH
        self.isr: tuple[int, ...] = ()
        self.is_leader = False
        self.is_replicated = False
        self.is_retired = False
        # Where the log ended when this broker became leader.
        self.epoch_start_offset = 0
        end_offset = storage.log_end_offset
        self.high_watermark = end_offset if high_watermark is None else min(high_watermark, end_offset)
        self._min_isr = 1
        self._leadership: Leadership | None = None
        self._refusal: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._lease = lease
        self._moved = moved
        # Told in the order in which they came.
        self._waiters: dict[AppendWaiter, None] = {}
        self._end_waiters: dict[AppendWaiter, None] = {}
        self._commits: CommitWaits | None = None  # there are none where nobody ever had to wait
        self._worker = worker
        self._commit: GroupCommit | None = None
        self._failing = False
        self.guards = TransactionGuards()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_stable_offset(self) -> int:
        """How far a reader of committed records may go; open transactions hold it back."""
        return self.log.last_stable_offset(self.high_watermark)

    # Roles

    def lead(self, record: PartitionRecord, replicas: Sequence[int], world: ReplicaWorld) -> None:
        """The image says that this broker leads, or something new of its followers."""
        if self.is_retired:
            return
        if not self.is_leader or record.leader_epoch != self.leader_epoch:
            self.epoch_start_offset = self.log.log_end_offset
            self._drop_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.is_leader = True
        self.is_replicated = len(replicas) > 1
        self._note(record)
        self._min_isr = min(self.config.min_insync_replicas, len(replicas))
        self._refusal = None
        if len(replicas) == 1 and len(record.isr) == 1:
            self._drop_leadership(None)
            if self.flush_end is None:
                self.commit(self.log.log_end_offset, 0)
        elif self._leadership is None:
            self._leadership = Leadership(self, world, record, replicas)
            self._leadership.settle()
        else:
            self._leadership.update(record, replicas)
            self._leadership.settle()
        if len(self.isr) < self._min_isr:
            # The high watermark stands still now, and nobody knows for how long.
            self._fail_commits(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def follow(self, record: PartitionRecord) -> None:
        """The image says that another broker leads, or none."""
        if self.is_retired or (not self.is_leader and record.leader_epoch == self.leader_epoch):
            self._note(record)
            return
        self._note(record)
        self.is_leader = False
        self.is_replicated = True
        self._drop_leadership(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.guards.clear()
        self._refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.disturb()

    def _drop_leadership(self, code: ErrorCode | None) -> None:
        leadership, self._leadership = self._leadership, None
        if leadership is not None:
            leadership.end(code)

    def _fail_commits(self, code: ErrorCode) -> None:
        if self._commits is not None:
            self._commits.fail(code)

    def _note(self, record: PartitionRecord) -> None:
        self.leader_id, self.leader_epoch, self.isr = record.leader, record.leader_epoch, record.isr
        self._note_move()

    def _note_move(self) -> None:
        if self._moved is not None:
            self._moved.add(self)

    @property
    def leadership(self) -> Leadership | None:
        """What this broker knows of its followers; None where it has none or does not lead."""
        return self._leadership

    def check_leader(self, current_leader_epoch: int) -> None:
        """Refuse who should ask another broker, or knows of another leader."""
        self.check_leader_epoch(current_leader_epoch)
        if self._refusal is not None:
            raise self._refused()

    @property
    def is_offline(self) -> bool:
        """Whether the disk has failed that the log is on."""
        return self.log.folder.is_offline

    def _refused(self) -> ApiError:
        if self.is_retired:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has been deleted")
        if self.is_offline:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk of {self.name} has failed")
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {self.leader_id} leads {self.name}")

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client whose metadata is older or newer than this leader (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    def append(
        self, batch: memoryview, header: BatchHeader, acks: int, now_ms: int, guard: TransactionGuard | None = None
    ) -> Appended:
        """Write one valid batch, or find that it was written before; `flush_end` says whether to wait then.

        `guard` is what `begin_transaction` gave for a batch whose coordinator had to be asked.
        """
        self._check_writable(acks)
        if header.is_transactional:
            self._check_transaction(header, guard)
        if duplicate := self._find_duplicate(header):
            # It may be one whose flush failed.
            self._check_online()
            return Appended(duplicate.base_offset, duplicate.timestamp if self._stamps_batches else NO_TIMESTAMP)
        log_append_time = NO_TIMESTAMP
        if self._stamps_batches:
            log_append_time = now_ms
            set_log_append_time(batch, 0, now_ms)
            header = read_header(batch)
        return Appended(self._take_in(batch, header), log_append_time)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """Write the end of a transaction, for all replicas in sync; the offset behind it."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "nobody has this producer id and epoch")
        self._check_writable(ACKS_ALL)
        self.log.producers.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
        built = build_end_transaction_marker(
            EndTransactionMarker(control_type, marker.coordinator_epoch),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=now_ms,
        )
        batch = memoryview(bytearray(built))
        return self._take_in(batch, read_header(batch)) + 1

    def begin_transaction(self, batch: FirstBatch, *, is_adding: bool, now_ms: int) -> TransactionGuard | None:
        """What a transactional batch has to be appended with, once its coordinator agrees; None if nobody need ask."""
        self.check_leader(NO_EPOCH)
        entry = self.log.producers.entries.get(batch.producer_id)
        return self.guards.begin(entry, batch, is_adding=is_adding, now_ms=now_ms)

    def _check_transaction(self, header: BatchHeader, guard: TransactionGuard | None) -> None:
        entry = self.log.producers.entries.get(header.producer_id)
        is_numbered = header.base_sequence != NO_SEQUENCE
        if entry is not None and is_numbered and entry.producer_epoch == header.producer_epoch and entry.find(header):
            return  # a batch that is repeated is known, however its transaction ended
        self.guards.check(entry, header, guard)

    def _check_writable(self, acks: int) -> None:
        if self._refusal is not None or (self._lease is not None and not self._lease.is_held):
            raise self._refused()
        if acks == ACKS_ALL and len(self.isr) < self._min_isr:
            message = f"{len(self.isr)} replica(s) in sync, min.insync.replicas is {self._min_isr}"
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, message)

    def _take_in(self, batch: memoryview, header: BatchHeader) -> int:
        """Write a batch that was found to be good, and tell everybody who waits; its offset."""
        base_offset = self._write(batch, header)
        if header.is_transactional and self.guards:
            self.guards.written(header)
        if self.log.is_flush_wanted or (self._commit is not None and self._commit.is_pending):
            self._join_commit(len(batch))
        elif self._leadership is None:
            # With one replica, what is written is replicated.
            self.commit(self.log.log_end_offset, len(batch))
        else:
            self._leadership.wrote(self.log.log_end_offset, len(batch))
        if self._end_waiters:
            _tell(self._end_waiters, len(batch))
        return base_offset

    def _find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        producers = self.log.producers
        try:
            return producers.check(header)
        except ApiError as error:
            is_stale = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if not is_stale or not recall_batches(producers, self.log.segments):
                raise
        return producers.check(header)

    def when_committed(self, offset: int) -> CommitEnd | None:
        """What an acknowledgement of everything below `offset` has to wait for; None if it is committed."""
        if self.high_watermark >= offset:
            return None
        if self._commits is None:
            self._commits = CommitWaits()
        return self._commits.add(offset)

    @property
    def is_settled(self) -> bool:
        """Whether all is committed that was there when this broker became leader."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def is_sure_to_lead(self) -> bool:
        """Whether nobody else can have been elected; without that nothing is acknowledged."""
        return self.is_leader and (self._lease is None or self._lease.is_held)

    @property
    def flush_end(self) -> FlushEnd | None:
        """What an acknowledgement of what was appended so far has to wait for; see `GroupCommit.end`."""
        return None if self._commit is None else self._commit.end

    def _join_commit(self, size_bytes: int) -> None:
        if self._commit is None:
            self._commit = GroupCommit(self.log, self._worker, self._flushed)
        self._commit.join(size_bytes)

    def _flushed(self, end_offset: int, size_bytes: int) -> None:
        if self._leadership is not None:
            self._leadership.wrote(end_offset, size_bytes)
        elif self.is_leader:
            self.commit(end_offset, size_bytes)

    async def find_by_time(self, timestamp_ms: int | None) -> TimestampOffset | None:
        """The first record at or after a time, or with None the newest. The disk is waited for in a worker thread."""
        while True:
            lookup = self.log.begin_lookup(timestamp_ms)
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._worker, lookup.run)
            except LookupOvertaken:
                if self.is_retired:
                    raise self._refused() from None
                continue
            if found is None or found.offset >= self.log.log_start_offset:
                return found

    def delete_records(self, before_offset: int) -> int:
        """Let everything below `before_offset` go, or with -1 everything that is committed; up to where."""
        if self._refusal is not None:
            raise self._refused()
        if before_offset == -1:
            before_offset = self.high_watermark
        if not 0 <= before_offset <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark of {self.name} is {self.high_watermark}")
        if before_offset > self.log.log_start_offset:
            self.log.advance_log_start(before_offset)
            # Somebody waits until the followers have let go, too.
            for waiter in tuple(self._end_waiters):
                waiter.disturbed()
        return before_offset

    @property
    def low_watermark(self) -> int:
        """From where on all replicas that live have the log, as far as this broker knows."""
        return self.log.log_start_offset if self._leadership is None else self._leadership.low_watermark

    def apply_retention(self, now_ms: int) -> None:
        """Let old segments leave the log; followers hear of that with their next fetch."""
        log_start_offset = self.log.log_start_offset
        self.log.apply_retention(now_ms, self.high_watermark)
        if self.log.log_start_offset != log_start_offset:
            _tell(self._waiters, 0)

    # Following

    def append_replicated(
        self, data: bytearray | memoryview, leader_epoch: int, batches: FoundBatches | None = None
    ) -> int:
        """Append what the leader of that epoch sent, of which these are the batches; how many bytes were taken.

        Raises `CorruptBatch` and `StorageError`, perhaps after some of it was appended.
        """
        size_bytes = append_replicated(self.log, data, leader_epoch, batches)
        if size_bytes and self._end_waiters:
            _tell(self._end_waiters, size_bytes)
        return size_bytes

    def truncate_to(self, offset: int, *, is_full: bool = False) -> None:
        """Cut the log to agree with the leader's; with `is_full` begin it again."""
        if is_full:
            self.log.truncate_fully(offset)
        else:
            self.log.truncate_to(offset)
        if self.log.log_end_offset < self.high_watermark:
            log.warning(
                "%s: records up to %d were committed and are cut at %d, after an unclean election",
                *(self.name, self.high_watermark, self.log.log_end_offset),
            )
            self.high_watermark = self.log.log_end_offset
            self._note_move()

    def learn(self, high_watermark: int, log_start_offset: int) -> None:
        """What the leader says of its log: how far it is committed, and where it begins."""
        offset = min(high_watermark, self.log.log_end_offset)
        if offset > self.high_watermark:
            self.advance(offset, MANY_BYTES)
        if log_start_offset > self.log.log_start_offset:
            self.log.advance_log_start(min(log_start_offset, self.high_watermark))

    # Waiting

    def wait(self, waiter: AppendWaiter, *, for_end: bool = False) -> None:
        """Be told of what becomes readable, or with `for_end` of everything that is appended, as followers are."""
        (self._end_waiters if for_end else self._waiters)[waiter] = None

    def stop_waiting(self, waiter: AppendWaiter) -> None:
        self._waiters.pop(waiter, None)
        self._end_waiters.pop(waiter, None)

    def retire(self) -> None:
        """Take no more records, because the topic is gone; some who hold this partition do not know yet."""
        self.is_retired = True
        self.is_leader = False
        self._drop_leadership(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._fail_commits(self._refusal)
        self.disturb()

    def _check_online(self) -> None:
        try:
            self.log.check()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be written") from error

    def disturb(self) -> None:
        """Send everybody who waits here to look again."""
        for waiter in (*self._waiters, *self._end_waiters):
            waiter.disturbed()

    @property
    def _stamps_batches(self) -> bool:
        return self.config.message_timestamp_type == "LogAppendTime"

    def _write(self, batch: memoryview, header: BatchHeader) -> int:
        try:
            base_offset = self.log.append(batch, header, self.leader_epoch)
        except StorageError as error:
            if not self._failing:
                log.error("%s cannot be written: %s", self.name, error)
            self._failing = True
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be written") from error
        if self._failing:
            log.info("%s can be written again", self.name)
            self._failing = False
        return base_offset

    def advance(self, offset: int, size_bytes: int) -> None:
        """Commit up to `offset` what other replicas have, too."""
        self.commit(offset, size_bytes)
        self._note_move()

    def commit(self, offset: int, size_bytes: int) -> None:
        """Let everybody read up to `offset`, which is about so many bytes more."""
        if offset > self.high_watermark:  # noqa: PLR1730  each append comes here, and a call of max costs more
            self.high_watermark = offset
        self.log.producers.acknowledge(self.high_watermark)
        if self._commits is not None:
            self._commits.reach(self.high_watermark)
        if self._waiters:
            _tell(self._waiters, size_bytes)


def _tell(waiters: dict[AppendWaiter, None], size_bytes: int) -> None:
    for waiter in tuple(waiters):
        waiter.appended(size_bytes)
