"""Records as Python objects, for clients and tests.

A broker does not use them: it checks produced records with `validation` and handles whole batches.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from tailrace.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.base.sentinel import INT64_MAX, INT64_MIN
from tailrace.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType, read_header
from tailrace.records.compression import Compression, decompress
from tailrace.records.error import CorruptBatch, TruncatedBatch
from tailrace.records.varint import read_varint, read_varlong

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record with its offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each whole batch, as in a fetch response.

    A broker may truncate the last batch, so a partial batch ends the iteration. Raise `CorruptBatch` if
    the bytes are not a batch.
    """
    position, end = 0, len(buffer)
    while position < end:
        try:
            header = read_header(buffer, position)
        except TruncatedBatch:
            return
        size_bytes = header.size_bytes
        if size_bytes > end - position:
            return
        yield position, header
        position += size_bytes


def read_records(
    buffer: Buffer, position: int = 0, limit_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, decompressed within `limit_bytes`.

    The checksum is not checked; `check_crc` does that. Raise `TruncatedBatch`, `CorruptBatch` or
    `DecompressionLimit`; `CorruptBatch` may come after some records.
    """
    header = read_header(buffer, position)
    if header.size_bytes > len(buffer) - position:
        raise TruncatedBatch(f"the buffer holds {len(buffer) - position} of the {header.size_bytes} bytes of a batch")
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    is_plain = header.compression is Compression.NONE
    data = bytes(payload if is_plain else decompress(header.compression, payload, limit_bytes))
    if header.record_count < 0:
        raise CorruptBatch(f"invalid record count {header.record_count}")
    at = 0
    for _ in range(header.record_count):
        record, at = _read_record(data, at, header)
        yield record
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes follow the last record")


def _read_record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    size, at = read_varint(data, at, len(data))
    end = at + size
    if size < 0 or end > len(data):
        raise CorruptBatch(f"a record has {size} bytes, but only {len(data) - at} are left")
    timestamp_delta, at = read_varlong(data, at + 1, end)  # skips the attributes; no bit is defined
    offset_delta, at = read_varint(data, at, end)
    key, at = _read_field(data, at, end)
    value, at = _read_field(data, at, end)
    headers, at = _read_headers(data, at, end)
    if at != end:
        raise CorruptBatch(f"a record has {size} bytes, but its fields have {size + at - end}")
    timestamp = header.base_timestamp + timestamp_delta
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise CorruptBatch("a timestamp does not fit 64 bits")
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_field(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    if size > end - at:
        raise CorruptBatch(f"a field has {size} bytes, but only {end - at} are left")
    return data[at : at + size], at + size


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise CorruptBatch(f"a record has {count} headers, but only {end - at} bytes are left")
    headers = []
    for _ in range(count):
        key, at = _read_field(data, at, end)
        if key is None:
            raise CorruptBatch("a header has no key")
        value, at = _read_field(data, at, end)
        # Replace invalid bytes as Java does, so that one wrong producer does not stop a consumer.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), at
