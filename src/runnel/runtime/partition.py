"""A partition that this broker leads: its log, its epoch, its watermarks, and who waits for them."""

import asyncio
import logging
from concurrent.futures import Executor
from typing import NamedTuple, Protocol
from uuid import UUID

from runnel.config.topic import TopicConfig
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import BatchHeader, read_header, set_log_append_time
from runnel.runtime.group_commit import FlushEnd, GroupCommit
from runnel.storage.error import StorageError
from runnel.storage.log import Log
from runnel.storage.producer_replay import recall_batches
from runnel.storage.producer_state import Duplicate
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


class Partition:
    """The leader's side of one partition."""

    def __init__(
        self,
        topic: str,
        topic_id: UUID,
        index: int,
        storage: Log,
        config: TopicConfig,
        worker: Executor | None = None,
    ) -> None:
        """`worker` waits for the disk, in lookups by time and where `flush.messages` wants a flush."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = storage
        self.config = config
        self.leader_epoch = 0
        self.isr: tuple[int, ...] = ()
        self.high_watermark = storage.log_end_offset
        self.is_retired = False
        self._waiters: dict[AppendWaiter, None] = {}  # told in the order in which they came
        self._worker = worker
        self._commit: GroupCommit | None = None
        self._failing = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def last_stable_offset(self) -> int:
        """How far a reader of committed records may go; open transactions hold it back."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Fence a client whose metadata is older or newer than this leader (KIP-320)."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"the leader epoch is {self.leader_epoch}")

    def append(self, batch: memoryview, header: BatchHeader, acks: int, now_ms: int) -> Appended:
        """Write one valid batch, or find that it was written before; `flush_end` says whether to wait then."""
        self._check_not_retired()
        if acks == ACKS_ALL and len(self.isr) < self.config.min_insync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.isr)} replica(s) in sync, min.insync.replicas is {self.config.min_insync_replicas}",
            )
        if duplicate := self._find_duplicate(header):
            # It may be one whose flush failed.
            self._check_online()
            return Appended(duplicate.base_offset, duplicate.timestamp if self._stamps_batches else NO_TIMESTAMP)
        log_append_time = NO_TIMESTAMP
        if self._stamps_batches:
            log_append_time = now_ms
            set_log_append_time(batch, 0, now_ms)
            header = read_header(batch)
        base_offset = self._write(batch, header)
        if self.log.is_flush_wanted or (self._commit is not None and self._commit.is_pending):
            self._join_commit(len(batch))
        else:
            self._advance_high_watermark(self.log.log_end_offset, len(batch))
        return Appended(base_offset, log_append_time)

    def _find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        producers = self.log.producers
        try:
            return producers.check(header)
        except ApiError as error:
            is_stale = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if not is_stale or not recall_batches(producers, self.log.segments):
                raise
        return producers.check(header)

    @property
    def flush_end(self) -> FlushEnd | None:
        """What an acknowledgement of what was appended so far has to wait for; see `GroupCommit.end`."""
        return None if self._commit is None else self._commit.end

    def _join_commit(self, size_bytes: int) -> None:
        if self._commit is None:
            self._commit = GroupCommit(self.log, self._worker, self._advance_high_watermark)
        self._commit.join(size_bytes)

    async def find_by_time(self, timestamp_ms: int | None) -> TimestampOffset | None:
        """The first record at or after a time, or with None the newest. The disk is waited for in a worker thread."""
        while True:
            lookup = self.log.begin_lookup(timestamp_ms)
            try:
                found = await asyncio.get_running_loop().run_in_executor(self._worker, lookup.run)
            except LookupOvertaken:
                self._check_not_retired()
                continue
            if found is None or found.offset >= self.log.log_start_offset:
                return found

    def delete_records(self, before_offset: int) -> int:
        """Let everything below `before_offset` go; the new low watermark."""
        self._check_not_retired()
        if before_offset == -1:
            before_offset = self.high_watermark
        if not 0 <= before_offset <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark of {self.name} is {self.high_watermark}")
        self.log.advance_log_start(before_offset)
        return self.log.log_start_offset

    def wait(self, waiter: AppendWaiter) -> None:
        self._waiters[waiter] = None

    def stop_waiting(self, waiter: AppendWaiter) -> None:
        self._waiters.pop(waiter, None)

    def retire(self) -> None:
        """Take no more records, because the topic is gone; some who hold this partition do not know yet."""
        self.is_retired = True
        self.disturb()

    def _check_not_retired(self) -> None:
        if self.is_retired:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has been deleted")

    def _check_online(self) -> None:
        try:
            self.log.check()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} cannot be written") from error

    def disturb(self) -> None:
        """Send everybody who waits here to look again."""
        for waiter in tuple(self._waiters):
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

    def _advance_high_watermark(self, offset: int, size_bytes: int) -> None:
        # With one replica in sync, what is written is replicated.
        if offset > self.high_watermark:  # noqa: PLR1730  each append comes here, and a call of max costs more
            self.high_watermark = offset
        self.log.producers.acknowledge(self.high_watermark)
        if self._waiters:
            for waiter in tuple(self._waiters):
                waiter.appended(size_bytes)
