"""One partition of a coordinator's topic as its log: records in, records out."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor
from typing import Generic, NamedTuple, Protocol, TypeVar

from runnel.machines.log_record import CorruptRecord, UnknownRecord, newest
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.primitive import Buffer
from runnel.records.batch import read_header
from runnel.records.builder import BatchBuilder
from runnel.records.compression import Compression
from runnel.records.record import read_batches
from runnel.records.row_tuple import read_tuples
from runnel.runtime.partition import ACKS_ALL, Partition

log = logging.getLogger("runnel.runtime")

R = TypeVar("R")


class LogFormat(Protocol[R]):
    """Records as the bytes of their keys and values."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """The bytes of a record."""
        ...

    def decode(self, key: Buffer, value: Buffer | None) -> R:
        """The record that these bytes hold; UnknownRecord or CorruptRecord if they hold none."""
        ...


class _Stored(NamedTuple):
    """A record as `read_tuples` makes it."""

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

    def append(self, records: Sequence[R], now_ms: int, *, is_atomic: bool) -> None:
        """Write records, all in one batch unless they may be parted; ApiError if they cannot be written."""
        size_max = self.partition.config.max_message_bytes
        builder = BatchBuilder(self._compression, size_bytes_max=size_max)
        batches = [builder]
        for record in records:
            key, value = self._format.encode(record)
            if not builder.append(now_ms, key, value):
                if is_atomic:
                    raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"{len(records)} records do not fit into a batch")
                builder = BatchBuilder(self._compression, size_bytes_max=size_max)
                builder.append(now_ms, key, value)
                batches.append(builder)
        for filled in batches:
            batch = memoryview(bytearray(filled.build()))
            if len(batch) > size_max:
                raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(batch)} bytes")
            self.partition.append(batch, read_header(batch), ACKS_ALL, now_ms)

    async def read(self) -> AsyncIterator[list[R]]:
        """Everything in the log, piece by piece; the disk is waited for and records are decoded in a worker thread."""
        storage = self.partition.log
        loop = asyncio.get_running_loop()
        offset = storage.log_start_offset
        while offset < (end := self.partition.high_watermark):
            found = storage.locate(offset, self._read_bytes, end, True)
            data = await loop.run_in_executor(self._worker, found.read)
            records, offset = await loop.run_in_executor(self._worker, self._decode, data, offset)
            yield records

    def _decode(self, data: bytes | bytearray | memoryview, offset: int) -> tuple[list[R], int]:
        """What counts of the records in some bytes of the log, and the offset behind them."""
        entries: list[tuple[bytes, _Stored]] = []
        next_offset = self.partition.high_watermark  # compaction may have emptied the rest
        for position, header in read_batches(data):
            next_offset = header.last_offset + 1
            if header.is_control or header.is_transactional:
                continue  # offsets of transactions count when their transaction is committed, which nobody can do yet
            batch = read_tuples(data, position, header, offset, _Stored, "", 0)
            entries += [(stored.key, stored) for stored in batch if stored.key is not None]
        records: list[R] = []
        for key, stored in newest(entries).items():
            self._decode_one(stored.offset, key, stored.value, records)
        return records, next_offset

    def _decode_one(self, offset: int, key: bytes, value: bytes | None, records: list[R]) -> None:
        try:
            records.append(self._format.decode(key, value))
        except UnknownRecord as unknown:
            log.info("%s: passed over the record at offset %d: %s", self.partition.name, offset, unknown)
        except CorruptRecord as error:
            log.error("%s: the record at offset %d makes no sense: %s", self.partition.name, offset, error)
