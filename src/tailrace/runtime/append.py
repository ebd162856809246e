"""Appends to a partition by its leader: checks, duplicates, the write itself, and the flush that may follow."""

import logging
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple

from tailrace.base.invariant import InvariantError
from tailrace.base.sentinel import ACKS_ALL
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, read_header, set_log_append_time
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.records.error import CorruptBatch
from tailrace.runtime.log.shared_flush import FlushEnd, SharedFlush
from tailrace.runtime.transaction.guard import TransactionGuard
from tailrace.storage.error import StorageError
from tailrace.storage.mirror_append import adopt, new_batches
from tailrace.storage.producer_replay import recall_batches
from tailrace.storage.producer_state import NO_TRANSACTION, Duplicate

if TYPE_CHECKING:
    from tailrace.runtime.partition import Partition

log = logging.getLogger("tailrace.runtime")


class Appended(NamedTuple):
    """Where a batch landed."""

    base_offset: int
    log_append_time: int


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, decided by its coordinator or an administrator."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int
    is_commit: bool


class Appender:
    """Appends the batches and markers that a leader gets."""

    __slots__ = ("_is_failing", "_partition", "_shared_flush", "_worker")

    def __init__(self, partition: "Partition", worker: Executor | None) -> None:
        """`worker` waits for the disk where `flush.messages` wants a flush."""
        self._partition = partition
        self._worker = worker
        self._shared_flush: SharedFlush | None = None  # made with the first flush
        self._is_failing = False

    def append(
        self, batch: memoryview, header: BatchHeader, acks: int, now_ms: int, guard: TransactionGuard | None
    ) -> Appended:
        """Append one valid batch, or find that it was appended before."""
        partition = self._partition
        partition.check_writable(acks)
        if header.is_transactional:
            self._check_transaction(header, guard)
        if duplicate := self._find_duplicate(header):
            return self._repeated(duplicate)
        if not self._stamps_batches:
            return Appended(self._take_in(batch, header), NO_TIMESTAMP)
        set_log_append_time(batch, 0, now_ms)
        return Appended(self._take_in(batch, read_header(batch)), now_ms)

    def find(self, header: BatchHeader) -> Appended | None:
        """Return where a batch is that was appended before; None if it is unknown, or is to be rejected.

        None also for a transactional batch without an open transaction: as in Kafka, only the coordinator knows whether
        its transaction was aborted, for example because it took too long.
        """
        if header.is_transactional and not self._has_open_transaction(header):
            return None
        try:
            duplicate = self._find_duplicate(header)
        except ApiError:
            return None  # `append` rejects it
        return None if duplicate is None else self._repeated(duplicate)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """Append the marker that ends a transaction; return the offset after it. It waits for all in-sync replicas."""
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a marker needs a producer id and an epoch that are not negative")
        self._partition.check_writable(ACKS_ALL)
        self._partition.log.producers.check_marker(
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

    def append_mirrored(self, data: memoryview, from_offset: int) -> int:
        """Append those of another cluster's batches that the log lacks, at their offsets; return the offset after them.

        `data` is all that the other log has from `from_offset` on, up to its last batch, so that there is no hole.
        """
        storage = self._partition.log
        self._partition.check_writable(ACKS_ALL)
        if from_offset > storage.log_end_offset:
            message = f"the batches begin at {from_offset}, and {self._partition.name} ends at {storage.log_end_offset}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, message)
        try:
            for batch, header in new_batches(storage, data):
                adopted = adopt(batch, header, self._partition.role.leader_epoch)
                self._take_in(batch, adopted, header.base_offset)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        self._check_online()
        return storage.log_end_offset

    @property
    def flush_end(self) -> FlushEnd | None:
        """The end of the flush that covers all appends so far; see `SharedFlush.end`."""
        return None if self._shared_flush is None else self._shared_flush.end

    def _check_transaction(self, header: BatchHeader, guard: TransactionGuard | None) -> None:
        partition = self._partition
        entry = partition.log.producers.entries.get(header.producer_id)
        is_numbered = header.base_sequence != NO_SEQUENCE
        if entry is not None and is_numbered and entry.producer_epoch == header.producer_epoch and entry.find(header):
            return  # a batch that is repeated is known, however its transaction ended
        partition.guards.check(entry, header, guard)

    def _has_open_transaction(self, header: BatchHeader) -> bool:
        entry = self._partition.log.producers.entries.get(header.producer_id)
        return entry is not None and entry.current_txn_first_offset != NO_TRANSACTION

    @property
    def _stamps_batches(self) -> bool:
        return self._partition.config.message_timestamp_type == "LogAppendTime"

    def _repeated(self, duplicate: Duplicate) -> Appended:
        self._check_online()  # it may be one whose flush failed
        return Appended(duplicate.base_offset, duplicate.timestamp if self._stamps_batches else NO_TIMESTAMP)

    def _find_duplicate(self, header: BatchHeader) -> Duplicate | None:
        storage = self._partition.log
        try:
            return storage.producers.check(header)
        except ApiError as error:
            is_stale = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if not is_stale or not recall_batches(storage.producers, storage.segments):
                raise
        return storage.producers.check(header)

    def _take_in(self, batch: memoryview, header: BatchHeader, at_offset: int | None = None) -> int:
        """Append a valid batch, and wake the waiters; return its offset.

        `at_offset` is the offset of a batch that keeps the one it has.
        """
        partition = self._partition
        base_offset = self._write(batch, header, at_offset)
        end_offset, size_bytes = partition.log.log_end_offset, len(batch)
        if end_offset != base_offset + header.last_offset_delta + 1:
            raise InvariantError(f"{partition.name}: a batch at offset {base_offset} ends at {end_offset}")
        if header.is_transactional and partition.guards:
            partition.guards.written(header)
        if partition.log.is_flush_wanted or (self._shared_flush is not None and self._shared_flush.is_pending):
            self._join_flush(size_bytes)
        else:
            partition.wrote(end_offset, size_bytes)
        if partition.waiters.followers:
            partition.waiters.appended(size_bytes)
        return base_offset

    def _join_flush(self, size_bytes: int) -> None:
        if self._shared_flush is None:
            self._shared_flush = SharedFlush(self._partition.log, self._worker, self._partition.flushed)
        self._shared_flush.join(size_bytes)

    def _write(self, batch: memoryview, header: BatchHeader, at_offset: int | None) -> int:
        partition = self._partition
        try:
            base_offset = partition.log.append(batch, header, partition.role.leader_epoch, at_offset)
        except StorageError as error:
            if not self._is_failing:
                log.error("%s cannot be written: %s", partition.name, error)
            self._is_failing = True
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.name} cannot be written") from error
        if self._is_failing:
            log.info("%s can be written again", partition.name)
            self._is_failing = False
        return base_offset

    def _check_online(self) -> None:
        try:
            self._partition.log.check()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._partition.name} cannot be written") from error
