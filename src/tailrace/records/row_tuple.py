"""The conversion of records from and to Python objects, one batch at a time, for clients.

Both directions have a native version in `_tuple.pxi`. The native reader is only a shortcut: it stops
at a damaged record, and `read_records` then raises the error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from tailrace.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType
from tailrace.records.builder import encode_record
from tailrace.records.compression import Compression, decompress
from tailrace.records.native import find_native
from tailrace.records.record import read_records
from tailrace.records.varint import write_varint

RowTuple: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""A timestamp in milliseconds, which is not negative, key, value, and headers with encoded names."""

T = TypeVar("T", bound=tuple[Any, ...])

_VARINTS_KEPT = 8192


def write_tuples_python(rows: list[RowTuple], prefix_size: int) -> bytearray:
    """Return the records after `prefix_size` zeros, with offset deltas from 0 on."""
    base_timestamp = rows[0][0]
    output = bytearray(prefix_size)
    for index, (timestamp, key, value, headers) in enumerate(rows):
        if headers:
            record: bytes | bytearray = encode_record(index, timestamp - base_timestamp, key, value, headers)
        else:
            record = b"".join(
                (
                    b"\x00",  # attributes; no bit is defined
                    _varint(timestamp - base_timestamp),
                    _varint(index),
                    b"\x01" if key is None else _varint(len(key)) + key,
                    b"\x01" if value is None else _varint(len(value)) + value,
                    b"\x00",
                )
            )
        output += _varint(len(record))
        output += record
    return output


def _encode_varint(value: int) -> bytes:
    output = bytearray()
    write_varint(output, value)
    return bytes(output)


_VARINTS = tuple(_encode_varint(value) for value in range(_VARINTS_KEPT))


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < _VARINTS_KEPT else _encode_varint(value)


write_tuples: Callable[[list[RowTuple], int], bytearray] = find_native("write_tuples") or write_tuples_python
_read_tuples = find_native("read_tuples")


def read_tuples(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    start_offset: int,
    kind: Callable[..., T],
    topic: str,
    partition: int,
) -> Iterable[T]:
    """Return the records of the batch at `position` from `start_offset` on, as named tuples of the class `kind`.

    Its fields are topic, partition, offset, timestamp, key, value and headers. Raise the errors of `read_records`.
    """
    if _read_tuples is not None and header.record_count >= 0:
        payload: Buffer = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
        if header.compression is not Compression.NONE:
            payload = decompress(header.compression, payload, DECOMPRESSED_BATCH_BYTES_MAX)
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        found: list[T] | None = _read_tuples(
            payload,
            0,
            len(payload),
            header.record_count,
            header.base_offset,
            header.max_timestamp if is_append_time else header.base_timestamp,
            is_append_time,
            start_offset,
            kind,
            topic,
            partition,
        )
        if found is not None:
            return found
    return (
        kind(topic, partition, *record) for record in read_records(buffer, position) if record.offset >= start_offset
    )
