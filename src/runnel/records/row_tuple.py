"""Records from and to Python objects, a batch at a time, for clients that look at records one by one.

Both directions have a native form in `_tuple.pxi`. What reads is only a shortcut there: it gives up
where a record is damaged, and `read_records` says what is wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from runnel.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from runnel.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType
from runnel.records.builder import encode_record
from runnel.records.compression import Compression, decompress
from runnel.records.native import find_native
from runnel.records.record import read_records
from runnel.records.varint import write_varint

RowTuple: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""Timestamp in milliseconds, from 0 on, key, value, and headers with encoded names."""

T = TypeVar("T", bound=tuple[Any, ...])

_VARINTS_KEPT = 8192


def write_tuples_python(rows: list[RowTuple], prefix_size: int) -> bytearray:
    """The records after so many zeros, with offsets from 0 on and times after that of the first."""
    base_timestamp = rows[0][0]
    output = bytearray(prefix_size)
    for index, (timestamp, key, value, headers) in enumerate(rows):
        if headers:
            record: bytes | bytearray = encode_record(index, timestamp - base_timestamp, key, value, headers)
        else:
            record = b"".join(
                (
                    b"\x00",  # attributes, of which none are defined
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
    """The records of the batch at `position` from an offset on, as named tuples of the class `kind`.

    Its fields are topic, partition, offset, timestamp, key, value and headers. Raises as `read_records` does.
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
