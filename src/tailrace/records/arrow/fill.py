"""The copying of records into the buffers of Arrow columns, without an object for each record.

The caller allocates buffers with room for everything that the batches may hold, and cuts them to
size afterwards. This module knows Arrow's layout but does not use pyarrow.

There are two versions of `fill_columns`: the Python one below, which defines the behaviour, and one
in C with the same steps in `_fill.pxi`. Both write the same bytes and report the same error.

Like Kafka's consumer, and unlike the walk that checks produced records, this reads every negative
length as null, and accepts gaps between offsets, which compaction leaves.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tailrace.base.sentinel import INT32_MAX, INT64_MAX, INT64_MIN
from tailrace.records.batch import Buffer
from tailrace.records.native import find_native
from tailrace.records.varint import VarintCut, VarintTooLong, read_varint, read_varlong
from tailrace.records.walk import WalkError, WalkFault, skip_field

RECORD_SIZE_MIN = 7
"""One byte each for the length, the attributes, two deltas, two null fields and the header count."""

HEADER_SIZE_MIN = 2
"""The lengths of an empty key and of a value."""

_INT32_MIN = -(2**31)
_MICROS_MS_MAX = INT64_MAX // 1000

WritableMemory: TypeAlias = Any  # what memoryview takes: a mutable pyarrow.Buffer, a bytearray


class Span(NamedTuple):
    """The uncompressed records of one batch."""

    buffer: Buffer
    position: int
    end: int
    record_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    is_append_time: bool  # then every record has the base timestamp


class BinaryBuffers(NamedTuple):
    """Validity bits, 32-bit offsets and data of a column, with one offset more than entries."""

    validity: WritableMemory | None  # None for the keys of headers, which are never null
    offsets: WritableMemory
    data: WritableMemory


class HeaderBuffers(NamedTuple):
    """A list for each record, and the keys and values of all headers."""

    validity: WritableMemory
    offsets: WritableMemory
    key: BinaryBuffers
    value: BinaryBuffers


class Fill(NamedTuple):
    """What was written. After a fault, only the batches before it."""

    row_count: int
    key: tuple[int, int]  # bytes and nulls
    value: tuple[int, int]  # bytes and nulls
    header: tuple[int, int]  # headers, and records without any
    header_key: tuple[int, bool]  # bytes, and whether any is not ASCII
    header_value: tuple[int, int]  # bytes and nulls
    fault: tuple[int, int, int] | None  # a WalkError, the index of the span and of the record


FillFunction: TypeAlias = Callable[
    [
        Sequence[Span],
        int,
        int,
        WritableMemory | None,
        WritableMemory | None,
        BinaryBuffers | None,
        BinaryBuffers | None,
        HeaderBuffers | None,
    ],
    tuple[Any, ...],
]


def fill_columns_python(
    spans: Sequence[Span],
    start_offset: int,
    end_offset: int,
    offset: WritableMemory | None,
    timestamp: WritableMemory | None,
    key: BinaryBuffers | None,
    value: BinaryBuffers | None,
    header: HeaderBuffers | None,
) -> tuple[Any, ...]:
    """Write the records of `spans` with offsets in [start_offset, end_offset); return the fields of `Fill`.

    A column whose buffers are None is not requested. Timestamps are written in microseconds.
    """
    columns = _Columns(offset, timestamp, key, value, header)
    fault = None
    for index, span in enumerate(spans):
        columns.check_room(span)
        before = columns.mark()
        error, record_index = _fill_span(columns, span, start_offset, end_offset)
        if error is not WalkError.NONE:
            columns.go_back(before)
            fault = (int(error), index, record_index)
            break
    return (*columns.counts(), fault)


def _fill_span(columns: "_Columns", span: Span, start_offset: int, end_offset: int) -> tuple[WalkError, int]:
    data = bytes(memoryview(span.buffer)[span.position : span.end])
    index = at = 0
    try:
        while index < span.record_count:
            timestamp_delta, offset_delta, key, value, headers, at = _read_record(data, at)
            if not 0 <= offset_delta <= span.last_offset_delta:
                raise WalkFault(WalkError.OFFSET_RANGE)
            offset = span.base_offset + offset_delta
            if start_offset <= offset < end_offset:
                columns.put(span, offset, timestamp_delta, key, value, headers)
            index += 1
        if at != len(data):
            raise WalkFault(WalkError.LEFTOVER)
    except WalkFault as fault:
        return fault.error, index
    except VarintCut:
        return WalkError.RECORD_SHORT, index
    except VarintTooLong:
        return WalkError.BAD_VARINT, index
    return WalkError.NONE, -1


_HeaderFields: TypeAlias = list[tuple[bytes, bytes | None]]


def _read_record(data: bytes, at: int) -> tuple[int, int, bytes | None, bytes | None, _HeaderFields, int]:
    """Return the fields of the record at `at`, and the position of the next one."""
    if at == len(data):
        raise WalkFault(WalkError.TRUNCATED)
    size, at = read_varint(data, at, len(data))
    end = at + size
    if size < 0 or end > len(data):
        raise WalkFault(WalkError.RECORD_SIZE)
    if size == 0:
        raise WalkFault(WalkError.RECORD_SHORT)
    timestamp_delta, at = read_varlong(data, at + 1, end)  # skips the attributes; no bit is defined
    offset_delta, at = read_varint(data, at, end)
    key, at = _read_field(data, at, end)
    value, at = _read_field(data, at, end)
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise WalkFault(WalkError.HEADER_COUNT)
    headers: _HeaderFields = []
    for _ in range(count):
        key_size, at = skip_field(data, at, end, 0, WalkError.HEADER_KEY)
        header_key = data[at - key_size : at]
        header_value, at = _read_field(data, at, end)
        headers.append((header_key, header_value))
    if at != end:
        raise WalkFault(WalkError.RECORD_LONG)
    return timestamp_delta, offset_delta, key, value, headers, end


def _read_field(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = skip_field(data, at, end, _INT32_MIN, WalkError.FIELD_SIZE)
    return (None if size < 0 else data[at - size : at]), at


class _Binary:
    """One column of bytes."""

    def __init__(self, buffers: BinaryBuffers, is_nullable: bool) -> None:
        self.size_bytes = self.null_count = 0
        self._validity = _open_validity(buffers.validity) if is_nullable else None
        self._offsets = _open_offsets(buffers.offsets)
        self._data = memoryview(buffers.data).cast("B")

    def has_room(self, entry_count: int, size_bytes: int) -> bool:
        bits = entry_count if self._validity is None else 8 * len(self._validity)
        size_bytes_max = min(len(self._data), INT32_MAX)
        return entry_count <= min(len(self._offsets) - 1, bits) and size_bytes <= size_bytes_max - self.size_bytes

    def put(self, index: int, field: bytes | None) -> None:
        if field is not None:
            self._data[self.size_bytes : self.size_bytes + len(field)] = field
            self.size_bytes += len(field)
        elif self._validity is not None:
            _clear_bit(self._validity, index)
            self.null_count += 1
        self._offsets[index + 1] = self.size_bytes


class _Headers:
    """The column of headers."""

    def __init__(self, buffers: HeaderBuffers) -> None:
        self.count = self.null_count = 0
        self.has_non_ascii_key = False
        self.key = _Binary(buffers.key, is_nullable=False)
        self.value = _Binary(buffers.value, is_nullable=True)
        self._validity = _open_validity(buffers.validity)
        self._offsets = _open_offsets(buffers.offsets)

    def has_room(self, row_count: int, size_bytes: int) -> bool:
        header_count = self.count + size_bytes // HEADER_SIZE_MIN
        return (
            row_count <= min(len(self._offsets) - 1, 8 * len(self._validity))
            and self.key.has_room(header_count, size_bytes)
            and self.value.has_room(header_count, size_bytes)
        )

    def put(self, row: int, headers: _HeaderFields) -> None:
        for key, value in headers:
            self.key.put(self.count, key)
            self.value.put(self.count, value)
            self.has_non_ascii_key |= not key.isascii()
            self.count += 1
        if not headers:
            _clear_bit(self._validity, row)
            self.null_count += 1
        self._offsets[row + 1] = self.count


class _Columns:
    """The requested columns, and how far they are filled."""

    def __init__(
        self,
        offset: WritableMemory | None,
        timestamp: WritableMemory | None,
        key: BinaryBuffers | None,
        value: BinaryBuffers | None,
        header: HeaderBuffers | None,
    ) -> None:
        self._row_count = 0
        self._offset = None if offset is None else memoryview(offset).cast("B").cast("q")
        self._timestamp = None if timestamp is None else memoryview(timestamp).cast("B").cast("q")
        self._key = None if key is None else _Binary(key, is_nullable=True)
        self._value = None if value is None else _Binary(value, is_nullable=True)
        self._header = None if header is None else _Headers(header)

    def check_room(self, span: Span) -> None:
        """Raise `ValueError` unless the columns have room for anything that a batch of this size may hold."""
        if not 0 <= span.position <= span.end <= len(span.buffer):
            raise ValueError("the records are not within the buffer")
        if not 0 <= span.last_offset_delta <= INT64_MAX - span.base_offset:
            raise ValueError("the offsets do not fit 64 bits")
        size_bytes = span.end - span.position
        rows = self._row_count + span.record_count
        fixed = [len(column) for column in (self._offset, self._timestamp) if column is not None]
        variable = [column for column in (self._key, self._value, self._header) if column is not None]
        if rows > min(fixed, default=rows) or not all(column.has_room(rows, size_bytes) for column in variable):
            raise ValueError("the columns have no room for the records")

    def put(
        self,
        span: Span,
        offset: int,
        timestamp_delta: int,
        key: bytes | None,
        value: bytes | None,
        headers: _HeaderFields,
    ) -> None:
        row = self._row_count
        if self._timestamp is not None:
            self._timestamp[row] = _timestamp_us(span, timestamp_delta)
        if self._offset is not None:
            self._offset[row] = offset
        if self._key is not None:
            self._key.put(row, key)
        if self._value is not None:
            self._value.put(row, value)
        if self._header is not None:
            self._header.put(row, headers)
        self._row_count += 1

    def counts(self) -> tuple[Any, ...]:
        """Return the fields of `Fill` except the last."""
        key, value, header = self._key, self._value, self._header
        return (
            self._row_count,
            (key.size_bytes, key.null_count) if key else (0, 0),
            (value.size_bytes, value.null_count) if value else (0, 0),
            (header.count, header.null_count) if header else (0, 0),
            (header.key.size_bytes, header.has_non_ascii_key) if header else (0, False),
            (header.value.size_bytes, header.value.null_count) if header else (0, 0),
        )

    mark = counts

    def go_back(self, mark: tuple[Any, ...]) -> None:
        """Undo the changes since the mark."""
        self._row_count = mark[0]
        if self._key:
            self._key.size_bytes, self._key.null_count = mark[1]
        if self._value:
            self._value.size_bytes, self._value.null_count = mark[2]
        if self._header:
            self._header.count, self._header.null_count = mark[3]
            self._header.key.size_bytes, self._header.has_non_ascii_key = mark[4]
            self._header.value.size_bytes, self._header.value.null_count = mark[5]


def _timestamp_us(span: Span, delta: int) -> int:
    timestamp = span.base_timestamp
    if not span.is_append_time:
        timestamp += delta
        if not INT64_MIN <= timestamp <= INT64_MAX:
            raise WalkFault(WalkError.TIMESTAMP)
    if not -_MICROS_MS_MAX <= timestamp <= _MICROS_MS_MAX:
        raise WalkFault(WalkError.TIMESTAMP_RANGE)
    return timestamp * 1000


def _open_offsets(memory: WritableMemory) -> memoryview:
    offsets = memoryview(memory).cast("B").cast("i")
    if not len(offsets):
        raise ValueError("a buffer of offsets has room for one at least")
    offsets[0] = 0
    return offsets


def _open_validity(memory: WritableMemory) -> memoryview:
    """Return a bitmap with every entry marked as valid."""
    validity = memoryview(memory).cast("B")
    validity[:] = b"\xff" * len(validity)
    return validity


def _clear_bit(bitmap: memoryview, index: int) -> None:
    bitmap[index >> 3] &= ~(1 << (index & 7))


fill_columns: FillFunction = find_native("fill_columns") or fill_columns_python
IS_NATIVE = fill_columns is not fill_columns_python
