"""The batches of a fetch: which of them a consumer accepts."""

from collections.abc import Callable, Iterator

import pytest

from tailrace.client.fetch.record import read_consumer_records
from tailrace.client.fetch.request import Fetched, read_fetched
from tailrace.protocol.messages.fetch import FetchResponsePartition
from tailrace.records.batch import assign_offsets
from tailrace.records.builder import BatchBuilder
from tailrace.records.error import CorruptBatch


def batch(base_offset: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(1000, None, b"x")
    data = bytearray(builder.build())
    assign_offsets(data, 0, base_offset, 0)
    return data


def answer(high_watermark: int, *base_offsets: int) -> FetchResponsePartition:
    records = b"".join(map(batch, base_offsets))
    return FetchResponsePartition(partition_index=0, high_watermark=high_watermark, records=records)


def test_records_that_were_appended_after_the_high_watermark_was_read_are_accepted() -> None:
    """Kafka reads the high watermark first, so its answer may have younger records. They were taken for damage."""
    fetched = read_fetched("t", 3, answer(3, 3, 4))
    assert fetched is not None
    assert fetched.next_offset == 5


def test_offsets_that_jump_above_the_high_watermark_are_damage() -> None:
    with pytest.raises(CorruptBatch, match="invalid offsets 9 to 9"):
        read_fetched("t", 3, answer(5, 9))
    fetched = read_fetched("t", 3, answer(5, 3, 9))
    assert fetched is not None
    assert fetched.next_offset == 4


def test_offsets_that_jump_below_the_high_watermark_are_gaps_of_compaction() -> None:
    fetched = read_fetched("t", 3, answer(10, 5, 9))
    assert fetched is not None
    assert fetched.next_offset == 10


@pytest.mark.parametrize("read", [read_consumer_records, Fetched.records])
def test_damage_is_told_with_its_partition(read: Callable[[Fetched], Iterator[object]]) -> None:
    """A wrong checksum was reported by its offsets alone, without topic and partition."""
    damaged = batch(3)
    damaged[-1] ^= 1
    reply = FetchResponsePartition(partition_index=0, high_watermark=5, records=bytes(damaged))
    fetched = read_fetched("t", 3, reply)
    assert fetched is not None
    with pytest.raises(CorruptBatch, match=r"^t-0: the batch of offsets 3 to 3 has a wrong checksum$"):
        list(read(fetched))
