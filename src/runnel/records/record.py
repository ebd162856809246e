"""Records as objects: what a client hands to its user, and what tests look at.

A broker does not come through here. It checks produced records with `validation` and moves
whole batches.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from runnel.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from runnel.records.batch import HEADER_SIZE, BatchHeader, Buffer, TimestampType, read_header
from runnel.records.compression import Compression, decompress
from runnel.records.error import CorruptBatch, TruncatedBatch
from runnel.records.varint import read_varint, read_varlong

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


class Record(NamedTuple):
    """One record with its place and time in the log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of each whole batch, as in a fetch response.

    A broker may cut the last batch, so one that is not all there ends the iteration. Raises
    `CorruptBatch` where the bytes are no batch.
    """
    position = 0
    while position < len(buffer):
        try:
            header = read_header(buffer, position)
        except TruncatedBatch:
            return
        if header.size_bytes > len(buffer) - position:
            return
        yield position, header
        position += header.size_bytes


def read_records(
    buffer: Buffer, position: int = 0, limit_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at `position`, decompressed within `limit_bytes`.

    It does not look at the checksum; `check_crc` does. Raises `TruncatedBatch`, `CorruptBatch` or
    `DecompressionLimit`, the second possibly after some records.
    """
    header = read_header(buffer, position)
    if header.size_bytes > len(buffer) - position:
        raise TruncatedBatch(f"{len(buffer) - position} bytes of a batch of {header.size_bytes}")
    payload = memoryview(buffer)[position + HEADER_SIZE : position + header.size_bytes]
    is_plain = header.compression is Compression.NONE
    data = bytes(payload if is_plain else decompress(header.compression, payload, limit_bytes))
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    at = 0
    for _ in range(header.record_count):
        record, at = _read_record(data, at, header)
        yield record
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def _read_record(data: bytes, at: int, header: BatchHeader) -> tuple[Record, int]:
    size, at = read_varint(data, at, len(data))
    end = at + size
    if size < 0 or end > len(data):
        raise CorruptBatch(f"a record of {size} bytes where {len(data) - at} are left")
    timestamp_delta, at = read_varlong(data, at + 1, end)  # after the attributes, of which none are defined
    offset_delta, at = read_varint(data, at, end)
    key, at = _read_field(data, at, end)
    value, at = _read_field(data, at, end)
    headers, at = _read_headers(data, at, end)
    if at != end:
        raise CorruptBatch(f"a record of {size} bytes whose fields take {size + at - end}")
    timestamp = header.base_timestamp + timestamp_delta
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    if not INT64_MIN <= timestamp <= INT64_MAX:
        raise CorruptBatch("a timestamp beyond 64 bits")
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_field(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    if size > end - at:
        raise CorruptBatch(f"a field of {size} bytes where {end - at} are left")
    return data[at : at + size], at + size


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise CorruptBatch(f"{count} headers where {end - at} bytes are left")
    headers = []
    for _ in range(count):
        key, at = _read_field(data, at, end)
        if key is None:
            raise CorruptBatch("a header without a key")
        value, at = _read_field(data, at, end)
        # As Java does, so that one odd producer does not stop a consumer.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), at
