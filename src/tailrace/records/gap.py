"""Batches without records, which stand for offsets that a log does not have."""

from collections.abc import Iterator

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    write_crc,
)


def build_gap(from_offset: int, to_offset: int) -> Iterator[bytearray]:
    """Yield the batches without records that cover [from_offset, to_offset), as compaction leaves them."""
    while from_offset < to_offset:
        count = min(to_offset - from_offset, INT32_MAX)
        yield _build_empty(from_offset, count)
        from_offset += count


def _build_empty(base_offset: int, count: int) -> bytearray:
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_SIZE - LOG_OVERHEAD,
        partition_leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=0,
    )
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(batch, 0, *header)
    write_crc(batch, 0, HEADER_SIZE)
    return batch
