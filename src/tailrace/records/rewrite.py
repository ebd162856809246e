"""The rewriting of batches: with fewer records, for compaction (KIP-534), or with another codec.

A rewritten batch keeps its first and last offset, its producer and its sequence numbers, so that
neither consumers nor producers notice the change.
"""

from tailrace.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from tailrace.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    TimestampType,
    write_crc,
)
from tailrace.records.compression import Compression, compress, decompress
from tailrace.records.error import CorruptBatch
from tailrace.records.offset_map import KeptRecords
from tailrace.records.varint import read_varint, read_varlong, varint_size, write_varint


def open_body(batch: Buffer, header: BatchHeader, limit_bytes: int = DECOMPRESSED_BATCH_BYTES_MAX) -> Buffer:
    """Return the decompressed records of a batch."""
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.record_count < 0:
        raise CorruptBatch(f"invalid record count {header.record_count}")
    if header.compression is Compression.NONE or not payload:
        return payload
    return decompress(header.compression, payload, limit_bytes)


def rewrite_batch(header: BatchHeader, body: Buffer, kept: KeptRecords, delete_horizon_ms: int | None) -> bytearray:
    """Return the batch with only the records in `body`, compressed as before.

    `delete_horizon_ms`, if not None, is the time from which its tombstones or its marker may be removed. It
    replaces the base timestamp, so the timestamp deltas of the records are changed to match.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is not None:
        body = rebase_timestamps(body, kept.record_count, base_timestamp - delete_horizon_ms)
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, delete_horizon_ms
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _seal(
        header,
        body if header.compression is Compression.NONE else compress(header.compression, body),
        attributes,
        base_timestamp,
        header.max_timestamp if is_append_time else kept.max_timestamp,
        kept.record_count,
    )


def recompress_batch(
    batch: Buffer, header: BatchHeader, codec: Compression, level: int | None, decompressed_bytes_max: int
) -> bytearray:
    """Return the batch with the same records in another codec; `level` None means the codec's default."""
    body = open_body(batch, header, decompressed_bytes_max)
    return _seal(
        header,
        body if codec is Compression.NONE else compress(codec, body, level),
        header.attributes & ~COMPRESSION_MASK | codec,
        header.base_timestamp,
        header.max_timestamp,
        header.record_count,
    )


def empty_batch(header: BatchHeader) -> bytearray:
    """Return the batch without records, with only its offsets, its producer and its timestamp."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return _seal(header, b"", attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def _seal(
    header: BatchHeader, payload: Buffer, attributes: int, base_timestamp: int, max_timestamp: int, record_count: int
) -> bytearray:
    batch = bytearray(HEADER_SIZE + len(payload))
    batch[HEADER_SIZE:] = payload
    changed = header._replace(
        batch_length=len(batch) - LOG_OVERHEAD,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=record_count,
    )
    HEADER.pack_into(batch, 0, *changed)
    write_crc(batch, 0, len(batch))
    return batch


def rebase_timestamps(body: Buffer, record_count: int, shift: int) -> bytes:
    """Return the records with `shift` added to each timestamp delta."""
    data = bytes(body)
    output = bytearray()
    at = 0
    for _ in range(record_count):
        size, at = read_varint(data, at, len(data))
        end = at + size
        timestamp_delta, rest = read_varlong(data, at + 1, end)
        write_varint(output, 1 + varint_size(timestamp_delta + shift) + end - rest)
        output.append(data[at])
        write_varint(output, timestamp_delta + shift)
        output += data[rest:end]
        at = end
    return bytes(output)
