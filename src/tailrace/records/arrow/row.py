"""The conversion of rows of Arrow columns to the records of a batch, without an object for each record.

There are two writers: `PythonRowWriter`, which defines the behaviour, and `RowWriter` in `_row.pxi`
with the same steps. Both write the same bytes and report the same error. The columns come from
the user, so each offset is checked against the data before it is used.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.arrow.column import BinaryColumn, HeaderColumns, TimestampColumn
from tailrace.records.batch import NO_TIMESTAMP
from tailrace.records.builder import encode_record
from tailrace.records.native import find_native
from tailrace.records.varint import write_varint

RECORD_SIZE_MAX = INT32_MAX - 128
"""A batch's length has 31 bits, minus the header and the record's own length prefix."""


class RowError(IntEnum):
    """The reason why a row cannot become a record."""

    NONE = 0
    FIELD_OUTSIDE = 1
    ROW_OUTSIDE = 2
    TIMESTAMP_NEGATIVE = 3
    RECORD_TOO_LARGE = 4
    HEADER_KEY_NULL = 5
    CHANGED = 6

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS = {
    RowError.NONE: "nothing is wrong",
    RowError.FIELD_OUTSIDE: "a field is not within its column's data",
    RowError.ROW_OUTSIDE: "the row number is out of range",
    RowError.TIMESTAMP_NEGATIVE: "the timestamp is before 1970",
    RowError.RECORD_TOO_LARGE: "the record is larger than 2 GiB",
    RowError.HEADER_KEY_NULL: "a header has no key",
    RowError.CHANGED: "the columns changed while they were read",
}


class WrittenRows(NamedTuple):
    """The records of some rows after a prefix of zeros, or the error of a row."""

    output: bytearray
    error: int
    row_count: int  # rows written; with an error, the index of the failed row after `start`
    base_timestamp: int
    max_timestamp: int


WrittenTuple: TypeAlias = tuple[bytearray, int, int, int, int]


class RowWriter(Protocol):
    """The interface of both writers."""

    def encode(self, rows: Any | None, start: int, stop: int, size_max: int, prefix_size: int) -> WrittenTuple:
        """Write as many rows from `start` to `stop` as fit into `size_max` bytes, but at least one.

        `rows` is a buffer of 32-bit row numbers; `start` and `stop` are then indexes into it. Return the
        fields of `WrittenRows`.
        """
        ...


class RowFault(Exception):
    """Stops the Python writer with an error."""

    def __init__(self, error: RowError) -> None:
        self.error = error


class RowSource:
    """One column of bytes or of lists."""

    def __init__(self, column: BinaryColumn | None, data_size: int = 0) -> None:
        self.entry_count = 0 if column is None else column.entry_count
        self._is_there = self.entry_count > 0
        if column is None or not self._is_there:
            return
        if column.shift < 0 or column.entry_count < 0:
            raise ValueError("a column does not begin before its buffers")
        self._shift = column.shift
        self._validity = _open_bitmap(column.validity, column.shift + column.entry_count)
        view = memoryview(column.offsets).cast("B")
        width = 8 if column.is_large else 4
        self._offsets = view[: len(view) // width * width].cast("q" if column.is_large else "i")
        if len(self._offsets) <= column.shift + column.entry_count:
            raise ValueError("a column has fewer offsets than rows")
        self._data = None if column.data is None else memoryview(column.data).cast("B")
        self._data_size = data_size if self._data is None else len(self._data)

    def range(self, index: int) -> tuple[int, int] | None:
        """Return the start and end of an entry, or None for null."""
        if not self._is_there:
            return None
        index += self._shift
        if self._validity is not None and not _is_set(self._validity, index):
            return None
        start, end = self._offsets[index], self._offsets[index + 1]
        if not 0 <= start <= end <= self._data_size:
            raise RowFault(RowError.FIELD_OUTSIDE)
        if end - start > RECORD_SIZE_MAX:
            raise RowFault(RowError.RECORD_TOO_LARGE)
        return start, end

    def field(self, index: int) -> bytes | None:
        found = self.range(index)
        return None if found is None else bytes(self._data[slice(*found)]) if self._data is not None else b""


class PythonRowWriter:
    """The writer in Python, which defines the behaviour; `RowWriter` in `_row.pxi` is its twin."""

    def __init__(
        self,
        row_count: int,
        key: BinaryColumn | None,
        value: BinaryColumn | None,
        header: HeaderColumns | None,
        timestamp: TimestampColumn | None,
        timestamp_default: int,
    ) -> None:
        if timestamp_default < NO_TIMESTAMP:
            raise ValueError("a timestamp is -1 or milliseconds since the epoch")
        self._row_count = row_count
        self._key, self._value = RowSource(key), RowSource(value)
        self._header_key = RowSource(None if header is None else header.keys)
        self._header_value = RowSource(None if header is None else header.values)
        self._header = RowSource(None if header is None else header.lists, self._header_key.entry_count)
        self._timestamp_default = timestamp_default
        self._timestamps = None if timestamp is None else _open_timestamps(timestamp, row_count)
        if any(column.entry_count not in (0, row_count) for column in (self._key, self._value, self._header)):
            raise ValueError("the columns differ in length")
        if self._header_value.entry_count not in (0, self._header_key.entry_count):
            raise ValueError("the columns differ in length")

    def encode(self, rows: Any | None, start: int, stop: int, size_max: int, prefix_size: int) -> WrittenTuple:
        """See `RowWriter`."""
        numbers = None if rows is None else _open_int32(rows)
        limit = self._row_count if numbers is None else len(numbers)
        if not 0 <= start < stop <= limit or prefix_size < 0:
            raise ValueError("there are no such rows")
        output = bytearray(prefix_size)
        index, base_timestamp, max_timestamp = 0, NO_TIMESTAMP, NO_TIMESTAMP
        try:
            for timestamp, record in self._records(numbers, start, stop):
                piece = bytearray()
                write_varint(piece, len(record))
                piece += record
                if index and len(output) - prefix_size + len(piece) > size_max:
                    break
                output += piece
                base_timestamp = timestamp if index == 0 else base_timestamp
                max_timestamp = timestamp if index == 0 else max(max_timestamp, timestamp)
                index += 1
        except RowFault as fault:
            return bytearray(), fault.error, index, 0, 0
        return output, RowError.NONE, index, base_timestamp, max_timestamp

    def _records(self, numbers: memoryview | None, start: int, stop: int) -> Iterator[tuple[int, bytearray]]:
        """Yield each row's timestamp and its record without the length prefix."""
        base_timestamp: int | None = None
        for index in range(stop - start):
            row = start + index if numbers is None else numbers[start + index]
            if not 0 <= row < self._row_count:
                raise RowFault(RowError.ROW_OUTSIDE)
            timestamp = self._timestamp(row)
            base_timestamp = timestamp if base_timestamp is None else base_timestamp
            key, value = self._key.field(row), self._value.field(row)
            record = encode_record(index, timestamp - base_timestamp, key, value, self._headers(row))
            if len(record) > RECORD_SIZE_MAX:
                raise RowFault(RowError.RECORD_TOO_LARGE)
            yield timestamp, record

    def _timestamp(self, row: int) -> int:
        if self._timestamps is None:
            return self._timestamp_default
        shift, validity, values = self._timestamps
        if validity is not None and not _is_set(validity, shift + row):
            return self._timestamp_default
        timestamp = values[shift + row]
        if timestamp < NO_TIMESTAMP:
            raise RowFault(RowError.TIMESTAMP_NEGATIVE)
        return timestamp

    def _headers(self, row: int) -> list[tuple[bytes, bytes | None]]:
        found = self._header.range(row)
        headers = []
        for index in range(*(found or (0, 0))):
            key = self._header_key.field(index)
            if key is None:
                raise RowFault(RowError.HEADER_KEY_NULL)
            headers.append((key, self._header_value.field(index)))
        return headers


def _open_timestamps(column: TimestampColumn, row_count: int) -> tuple[int, memoryview | None, memoryview]:
    view = memoryview(column.data).cast("B")
    values = view[: len(view) // 8 * 8].cast("q")
    if column.shift < 0 or len(values) < column.shift + row_count:
        raise ValueError("there are fewer timestamps than rows")
    return column.shift, _open_bitmap(column.validity, column.shift + row_count), values


def _open_int32(buffer: Any) -> memoryview:
    view = memoryview(buffer).cast("B")
    return view[: len(view) // 4 * 4].cast("i")


def _open_bitmap(buffer: Any | None, bit_count: int) -> memoryview | None:
    if buffer is None:
        return None
    bitmap = memoryview(buffer).cast("B")
    if len(bitmap) < (bit_count + 7) // 8:
        raise ValueError("a bitmap is shorter than its column")
    return bitmap


def _is_set(bitmap: memoryview, index: int) -> bool:
    return bitmap[index >> 3] >> (index & 7) & 1 == 1


make_row_writer: Any = find_native("RowWriter") or PythonRowWriter
IS_NATIVE = make_row_writer is not PythonRowWriter
