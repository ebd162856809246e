"""The records that a producer holds, and their encoding as a batch.

They are plain tuples until their batch is sent: `send` costs a tuple, and a whole batch is encoded at once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from tailrace.records.batch import HEADER_SIZE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TRANSACTIONAL_FLAG
from tailrace.records.builder import seal_batch
from tailrace.records.compression import Compression, compress
from tailrace.records.row_tuple import RowTuple, write_tuples

HeaderPairs: TypeAlias = Iterable[tuple[str, bytes | None]]
Row: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Timestamp in milliseconds, key, value and headers."""


class ProducerStamp(NamedTuple):
    """The producer of a batch, and the sequence number of its first record."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


_OVERHEAD_SMALL_BYTES = 14
_OVERHEAD_BYTES = 21  # the overhead of a record beside its key, value and headers, as Kafka estimates it
_SMALL_BYTES = 8000
_HEADER_OVERHEAD_BYTES = 10


def row_size_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Estimate the size of a record in a batch, rather too large than too small."""
    size = (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        size += sum(
            _HEADER_OVERHEAD_BYTES + len(name.encode()) + (len(field) if field else 0) for name, field in headers
        )
    return size + (_OVERHEAD_SMALL_BYTES if size < _SMALL_BYTES else _OVERHEAD_BYTES)


def encode_rows(
    rows: list[Row],
    compression: Compression,
    level: int | None,
    producer: ProducerStamp,
    *,
    is_transactional: bool = False,
) -> bytearray:
    """Return one batch of these records, whose base offset is 0."""
    output = write_tuples(_with_encoded_names(rows), HEADER_SIZE)
    if compression is not Compression.NONE:
        packed = compress(compression, memoryview(output)[HEADER_SIZE:], level)
        output = bytearray(HEADER_SIZE + len(packed))
        output[HEADER_SIZE:] = packed
    seal_batch(
        output,
        attributes=int(compression) | (TRANSACTIONAL_FLAG if is_transactional else 0),
        record_count=len(rows),
        base_timestamp=rows[0][0],
        max_timestamp=max(row[0] for row in rows),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
    )
    return output


def _with_encoded_names(rows: list[Row]) -> list[RowTuple]:
    if not any(row[3] for row in rows):
        return cast("list[RowTuple]", rows)  # the two types differ only in headers
    return [(*row[:3], [(name.encode(), field) for name, field in row[3]]) for row in rows]
