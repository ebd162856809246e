"""The scan of the batches of one fetch: checked, decompressed and grouped into chunks for Arrow record batches.

The native module scans runs of plain batches: whole, not compressed, not markers, with a right
checksum. It stops at any other batch, and the Python code here handles that one, as it handles every
batch if the module was not built. So only this code decides what is damaged, and small batches
still do not cost a dozen Python objects each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from tailrace.base.sentinel import INT64_MAX, NO_OFFSET
from tailrace.records.arrow.fill import RECORD_SIZE_MIN, Span
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType, check_crc
from tailrace.records.compression import Compression, decompress
from tailrace.records.error import CorruptBatch, RecordError
from tailrace.records.native import find_native
from tailrace.records.record import read_batches
from tailrace.records.transaction_filter import TransactionFilter


class ScanOptions(NamedTuple):
    """The options that are the same for all fetches of a partition."""

    label: str
    check_crcs: bool
    chunk_bytes_max: int
    chunk_rows_max: int
    decompressed_bytes_max: int

    def describe(self, base_offset: int, reason: str) -> str:
        """Return a message that names a damaged batch and the reason."""
        return f"{self.label}: the batch at offset {base_offset}: {reason}"

    def corrupt(self, base_offset: int, reason: str) -> CorruptBatch:
        return CorruptBatch(self.describe(base_offset, reason))


@dataclass(slots=True)
class Chunk:
    """Batches that become one Arrow record batch. All have the same timestamp type."""

    next_offset: int = NO_OFFSET  # before the first batch
    timestamp_type: TimestampType | None = None  # None before the first records
    spans: list[Span] = field(default_factory=list)
    row_count_max: int = 0
    size_bytes: int = 0

    def add(self, spans: Sequence[Span], row_count: int, size_bytes: int) -> None:
        """Add batches of the chunk's timestamp type, with their total number of records and bytes."""
        self.spans += spans
        self.row_count_max += row_count
        self.size_bytes += size_bytes


_scan_native = find_native("scan_plain_batches")


class BatchScan:
    """Scans one fetch once."""

    def __init__(
        self,
        buffer: Buffer,
        start_offset: int,
        end_offset: int,
        transactions: TransactionFilter,
        options: ScanOptions,
    ) -> None:
        self._buffer = buffer
        self._position = 0
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._transactions = transactions
        self._options = options

    def chunks(self) -> Iterator[Chunk]:
        """Yield some batches at a time; raise a `RecordError` at a damaged one, after the chunks before it."""
        chunk = Chunk()
        failure: RecordError | None = None
        while True:
            try:
                self._take_plain(chunk)
                header = self._read_header()
                span = None if header is None else self._open(header)
            except RecordError as error:
                failure = error
                break
            if header is None:
                break
            if span is not None:
                if not self._has_room(chunk, header, span):
                    yield chunk
                    chunk = Chunk()
                chunk.timestamp_type = header.timestamp_type
                chunk.add([span], span.record_count, span.end - span.position)
            self._move(chunk, header.next_offset, self._position + header.size_bytes)
        if chunk.next_offset != NO_OFFSET:
            yield chunk
        if failure is not None:
            raise failure

    def _move(self, chunk: Chunk, next_offset: int, position: int) -> None:
        """Advance past a batch, or to the end of the buffer if no further offsets are requested."""
        chunk.next_offset = max(self._start_offset, min(next_offset, self._end_offset))
        self._position = position if next_offset < self._end_offset else len(self._buffer)

    def _take_plain(self, chunk: Chunk) -> None:
        """Add the next plain batches, if the native module is available."""
        if _scan_native is None:
            return
        spans, position, row_count, size_bytes = _scan_native(
            self._buffer,
            self._position,
            self._start_offset,
            self._end_offset,
            self._transactions.is_idle,
            -1 if chunk.timestamp_type is None else chunk.timestamp_type,
            self._options.chunk_bytes_max - chunk.size_bytes,
            self._options.chunk_rows_max - chunk.row_count_max,
            crc32c if self._options.check_crcs else None,
        )
        if spans:
            last = Span._make(spans[-1])
            chunk.timestamp_type = TimestampType(last.is_append_time)
            chunk.add(spans, row_count, size_bytes)
            self._move(chunk, last.base_offset + last.last_offset_delta + 1, position)

    def _read_header(self) -> BatchHeader | None:
        """Return the header of the next whole batch, or None at the end."""
        try:
            found = next(read_batches(memoryview(self._buffer)[self._position :]), None)
        except RecordError as error:
            raise type(error)(f"{self._options.label}: {error}") from None
        if found is None:
            return None
        header = found[1]
        base_offset = header.base_offset
        if base_offset < 0 or not 0 <= header.last_offset_delta < INT64_MAX - base_offset:
            raise self._options.corrupt(base_offset, f"its last offset delta {header.last_offset_delta} is invalid")
        is_wanted = base_offset < self._end_offset
        if is_wanted and self._options.check_crcs and not check_crc(self._buffer, self._position, header):
            raise self._options.corrupt(base_offset, "its checksum is wrong")
        return header

    def _open(self, header: BatchHeader) -> Span | None:
        """Return the decompressed records of a batch, or None if none of them is requested."""
        is_hidden = self._transactions.hides(self._buffer, self._position, header)
        if is_hidden or header.last_offset < self._start_offset or header.base_offset >= self._end_offset:
            return None
        buffer, start, end = self._buffer, self._position + HEADER_SIZE, self._position + header.size_bytes
        try:
            if header.compression is not Compression.NONE:
                packed = memoryview(buffer)[start:end]
                buffer = decompress(header.compression, packed, self._options.decompressed_bytes_max)
                start, end = 0, len(buffer)
        except RecordError as error:
            raise type(error)(self._options.describe(header.base_offset, str(error))) from None
        self._check_count(header, end - start)
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        return Span(
            buffer,
            start,
            end,
            header.record_count,
            header.base_offset,
            header.last_offset_delta,
            header.max_timestamp if is_append_time else header.base_timestamp,
            is_append_time,
        )

    def _check_count(self, header: BatchHeader, size_bytes: int) -> None:
        count = header.record_count
        if count < 0 or count * RECORD_SIZE_MIN > size_bytes:
            raise self._options.corrupt(header.base_offset, f"it claims {count} records in {size_bytes} bytes")
        if count > self._options.chunk_rows_max:
            raise self._options.corrupt(header.base_offset, f"its {count} records are too many for one column")

    def _has_room(self, chunk: Chunk, header: BatchHeader, span: Span) -> bool:
        """Return whether a batch fits into the chunk. The first batch always does, because batches are not split."""
        if not chunk.spans:
            return True
        return (
            chunk.timestamp_type is header.timestamp_type
            and chunk.size_bytes + span.end - span.position <= self._options.chunk_bytes_max
            and chunk.row_count_max + span.record_count <= self._options.chunk_rows_max
        )
