"""Batches from other batches, as compaction writes them (KIP-534).

A rewritten batch keeps its first offset, its last one, its producer and its sequence numbers,
so that neither readers nor producers see that records between are gone.
"""

from runnel.base.limits import DECOMPRESSED_BATCH_BYTES_MAX
from runnel.records.batch import (
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
from runnel.records.compression import Compression, compress, decompress
from runnel.records.error import CorruptBatch
from runnel.records.offset_map import KeptRecords
from runnel.records.varint import read_varint, read_varlong, varint_size, write_varint


def open_body(batch: Buffer, header: BatchHeader) -> Buffer:
    """The records of a batch, decompressed."""
    payload = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    if header.compression is Compression.NONE or not payload:
        return payload
    return decompress(header.compression, payload, DECOMPRESSED_BATCH_BYTES_MAX)


def rewrite_batch(header: BatchHeader, body: Buffer, kept: KeptRecords, delete_horizon_ms: int | None) -> bytearray:
    """The batch with the records in `body` only, compressed as before.

    A `delete_horizon_ms` that is not None is the time from which its tombstones or its marker may go. It takes
    the place of the base timestamp, so each record's timestamp is counted from there.
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


def empty_batch(header: BatchHeader) -> bytearray:
    """The batch without any record, of which its offsets, its producer and its time are left."""
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
    """The records with `shift` added to each timestamp delta."""
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
