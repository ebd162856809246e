"""One partition of a coordinator's topic as its log: records in, records out."""

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Sequence
from concurrent.futures import Executor
from typing import Generic, NamedTuple, Protocol, TypeVar

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import ACKS_ALL
from tailrace.machines.decision import ProducerIdentity
from tailrace.machines.log_record import CorruptRecord, UnknownRecord
from tailrace.machines.log_replay import LogEntry, ReplayKeys, TransactionEnd, newest
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.primitive import Buffer
from tailrace.records.batch import NO_PRODUCER_ID, BatchHeader, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType, read_control_type
from tailrace.records.error import RecordError
from tailrace.records.record import read_batches, read_records
from tailrace.records.row_tuple import read_tuples
from tailrace.runtime.partition import Partition
from tailrace.runtime.transaction.guard import TransactionGuard

log = logging.getLogger("tailrace.runtime")

R = TypeVar("R")


class LogFormat(Protocol[R]):
    """The encoding of records as keys and values."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Return the key and the value of a record."""
        ...

    def decode(self, key: Buffer, value: Buffer | None) -> R:
        """Return the record; raise UnknownRecord or CorruptRecord if the bytes are not one."""
        ...


class Written(NamedTuple):
    """The offset of the first written record, and the number of written records."""

    first_offset: int
    record_count: int


class _Stored(NamedTuple):
    """A record that `read_tuples` returns."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: object


class CoordinatorLog(Generic[R]):
    """Appends decisions to a partition and reads them back."""

    def __init__(
        self,
        partition: Partition,
        record_format: LogFormat[R],
        compression: Compression,
        read_bytes: int,
        worker: Executor,
    ) -> None:
        self.partition = partition
        self._format = record_format
        self._compression = compression
        self._read_bytes = read_bytes
        self._worker = worker

    def append(
        self,
        records: Sequence[R],
        now_ms: int,
        *,
        is_atomic: bool,
        producer: ProducerIdentity | None = None,
        guard: TransactionGuard | None = None,
    ) -> Written:
        """Write records, all in one batch unless they may be parted; ApiError if none can be written.

        Of records that may be parted only the first may be written. With a producer they belong to its transaction, for
        which `guard` speaks.
        """
        size_max = self.partition.config.max_message_bytes
        builder = self._new_builder(producer)
        batches = [builder]
        for record in records:
            key, value = self._format.encode(record)
            if not builder.append(now_ms, key, value):
                if is_atomic:
                    raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(records)} records do not fit into a batch")
                builder = self._new_builder(producer)
                builder.append(now_ms, key, value)
                batches.append(builder)
        built = [memoryview(bytearray(filled.build())) for filled in batches]
        if (largest := max(map(len, built))) > size_max:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {largest} bytes")
        offset = self.partition.log.log_end_offset
        for batch in built:
            try:
                self.partition.append(batch, read_header(batch), ACKS_ALL, now_ms, guard)
            except ApiError as error:
                if (count := self.partition.log.log_end_offset - offset) == 0:
                    raise
                # What was appended cannot be taken back. The machine decides about the rest again.
                log.warning("%s: %d of %d records were written: %s", self.partition.name, count, len(records), error)
                return Written(offset, count)
        count = self.partition.log.log_end_offset - offset
        # The machine is told these offsets, and a load finds the records at those of the log.
        invariant(count == len(records), f"{len(records)} records from {offset} to {offset + count}")
        return Written(offset, count)

    def _new_builder(self, producer: ProducerIdentity | None) -> BatchBuilder:
        size_max = self.partition.config.max_message_bytes
        if producer is None:
            return BatchBuilder(self._compression, size_bytes_max=size_max)
        return BatchBuilder(
            self._compression,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
            size_bytes_max=size_max,
        )

    async def read(self) -> AsyncIterator[list[LogEntry[R] | TransactionEnd]]:
        """Read the whole log, in pieces; a worker thread reads the disk and decodes the records."""
        storage = self.partition.log
        loop = asyncio.get_running_loop()
        offset = storage.log_start_offset
        while offset < (end := self.partition.high_watermark):
            found = storage.locate(offset, self._read_bytes, end, True)
            data = await loop.run_in_executor(self._worker, found.read)
            entries, offset = await loop.run_in_executor(self._worker, self._decode, data, offset)
            yield entries

    def _decode(self, data: Buffer, offset: int) -> tuple[list[LogEntry[R] | TransactionEnd], int]:
        """Return the entries to replay in some bytes of the log, and the offset after them."""
        found: list[tuple[Hashable, _Stored | LogEntry[_Stored] | TransactionEnd]] = []
        keys = ReplayKeys()
        next_offset = self.partition.high_watermark  # compaction may have emptied the rest
        for position, header in read_batches(data):
            next_offset = header.last_offset + 1
            if header.is_control:
                if (end := self._read_end(data, position, header)) is not None:
                    found.append((keys.of_end(end.producer_id), end))
                continue
            batch = read_tuples(data, position, header, offset, _Stored, "", 0)
            if not header.is_transactional:
                # This is the way of nearly all records.
                found += [
                    (stored.key if stored.value is not None else keys.of_record(stored.key, None), stored)
                    for stored in batch
                    if stored.key is not None
                ]
                continue
            producer_id = header.producer_id
            found += [
                (keys.of_record(stored.key, stored.value, producer_id), LogEntry(stored, stored.offset, producer_id))
                for stored in batch
                if stored.key is not None
            ]
        return [entry for each in newest(found).values() if (entry := self._entry(each)) is not None], next_offset

    def _entry(self, found: "_Stored | LogEntry[_Stored] | TransactionEnd") -> LogEntry[R] | TransactionEnd | None:
        if isinstance(found, TransactionEnd):
            return found
        stored, producer_id = (
            (found, NO_PRODUCER_ID) if isinstance(found, _Stored) else (found.record, found.producer_id)
        )
        record = self._decode_one(stored)
        return None if record is None else LogEntry(record, stored.offset, producer_id)

    def _read_end(self, data: Buffer, position: int, header: BatchHeader) -> TransactionEnd | None:
        """Return the marker in a control batch; None if compaction has emptied the batch, or it ends no transaction."""
        try:
            types = [read_control_type(record.key) for record in read_records(data, position)]
        except RecordError as error:
            log.error("%s: the marker at offset %d is damaged: %s", self.partition.name, header.base_offset, error)
            return None
        if not types or types[0] not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        return TransactionEnd(header.producer_id, types[0] is ControlType.COMMIT)

    def _decode_one(self, stored: _Stored) -> R | None:
        name = self.partition.name
        try:
            return self._format.decode(stored.key or b"", stored.value)
        except UnknownRecord as unknown:
            log.info("%s: skipped the record at offset %d: %s", name, stored.offset, unknown)
        except CorruptRecord as error:
            log.error("%s: the record at offset %d is damaged: %s", name, stored.offset, error)
        return None
