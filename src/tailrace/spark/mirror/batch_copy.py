"""The copies of fetched batches: the bytes of the source, with only the header changed where that is possible. Pure.

Committed batches are copied without opening them: records, keys, headers, timestamps and the codec stay as they are,
byte for byte. Only the header is made that of a new batch of the mirror's transaction. Three kinds of batches have to
be encoded anew, by column: those with gaps left by compaction, because brokers accept only batches without gaps; those
with the broker's timestamps, because a producer may not send them; and one of which an earlier run has copied the first
part.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.base.sentinel import NO_EPOCH
from tailrace.client.fetch.isolation import visible_batches
from tailrace.client.fetch.request import Fetched
from tailrace.records.arrow.decode import ColumnDecoder
from tailrace.records.arrow.encode import RowEncoder
from tailrace.records.batch import (
    DELETE_HORIZON_FLAG,
    HEADER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
)
from tailrace.spark.mirror.translation import Span

_COLUMNS = ("key", "value", "headers", "timestamp", "offset")


class CopiedBatch(NamedTuple):
    """A batch to send. Its checksum is set when the producer is.

    `first` and `last` are the source offsets of its first and last record.
    """

    data: bytearray
    record_count: int
    first: int
    last: int

    def spans(self, target_offset: int) -> list[Span]:
        """Return what its target offset proves: with gaps inside, only where the first and the last record are."""
        if self.last - self.first + 1 == self.record_count:
            return [Span(self.first, target_offset, self.record_count)]
        return [Span(self.first, target_offset, 1), Span(self.last, target_offset + self.record_count - 1, 1)]


def copy_batches(fetched: Fetched) -> Iterator[CopiedBatch]:
    """Iterate over copies of the committed batches of a fetch; raises `RecordError` if the data is damaged."""
    for position, header in visible_batches(fetched.data, fetched.aborted):
        if header.next_offset <= fetched.offset or not header.record_count:
            continue
        batch = memoryview(fetched.data)[position : position + header.size_bytes]
        is_dense = header.record_count == header.last_offset_delta + 1
        is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
        if is_dense and is_create_time and header.base_offset >= fetched.offset:
            yield CopiedBatch(_rewrite(batch, header), header.record_count, header.base_offset, header.last_offset)
        else:
            yield from _encode(batch, header, fetched)


def _rewrite(batch: memoryview, header: BatchHeader) -> bytearray:
    """Return the batch as one of a transaction that has no producer yet."""
    data = bytearray(batch)
    # The base timestamp of a batch with a delete horizon is the horizon, and its records count from there: without the
    # flag it means the same timestamps.
    changed = header._replace(
        base_offset=0,
        partition_leader_epoch=NO_EPOCH,
        attributes=(header.attributes | TRANSACTIONAL_FLAG) & ~DELETE_HORIZON_FLAG,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
    )
    HEADER.pack_into(data, 0, *changed)
    return data


def _encode(batch: memoryview, header: BatchHeader, fetched: Fetched) -> Iterator[CopiedBatch]:
    """Yield the records of one batch as new batches without gaps, in the same codec."""
    decoder = ColumnDecoder(fetched.topic, fetched.partition, _COLUMNS, check_crcs=False)
    for decoded in decoder.decode(_without_transaction(batch, header), fetched.offset):
        rows = decoded.record_batch
        offsets = rows.column("offset")
        encoder = RowEncoder(rows.drop_columns("offset"))
        start = 0
        while start < encoder.row_count:
            encoded = encoder.encode(start, compression=header.compression, is_transactional=True, has_checksum=False)
            end = start + encoded.row_count
            yield CopiedBatch(encoded.batch, encoded.row_count, offsets[start].as_py(), offsets[end - 1].as_py())
            start = end


def _without_transaction(batch: memoryview, header: BatchHeader) -> bytearray:
    """Return the batch, which is known to be committed, as one that belongs to no transaction."""
    data = bytearray(batch)
    HEADER.pack_into(data, 0, *header._replace(attributes=header.attributes & ~TRANSACTIONAL_FLAG))
    return data
