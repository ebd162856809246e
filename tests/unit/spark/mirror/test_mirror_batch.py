"""Copies of single batches: the bytes of the source where that is possible, and equal records otherwise."""

from collections.abc import Iterable

import pytest

from tailrace.client.fetch.request import Fetched
from tailrace.records.batch import read_header, set_log_append_time, write_crc
from tailrace.records.builder import BatchBuilder
from tailrace.records.compression import Compression
from tailrace.records.error import CorruptBatch
from tailrace.records.offset_map import KeptRecords
from tailrace.records.record import read_records
from tailrace.records.rewrite import open_body, rewrite_batch
from tailrace.records.varint import read_varint
from tailrace.spark.mirror.batch_copy import CopiedBatch, copy_batches
from tailrace.spark.mirror.translation import Span

CODECS = list(Compression)


def build(numbers: Iterable[int], codec: Compression = Compression.NONE) -> bytearray:
    builder = BatchBuilder(codec)
    for number in numbers:
        headers = [("h", b"%d" % number)] if number % 3 else []
        builder.append(1_000 + number, b"k%d" % number if number % 2 else None, b"v%d" % number, headers)
    return bytearray(builder.build())


def fetched(*batches: bytearray, offset: int = 0) -> Fetched:
    data = bytearray()
    next_offset = 0
    for batch in batches:
        header = read_header(batch)
        next_offset = header.next_offset
        data += batch
    return Fetched("t", 0, offset, next_offset, next_offset, bytes(data), ())


def records(batch: CopiedBatch) -> list[tuple[object, ...]]:
    data = bytearray(batch.data)
    write_crc(data, 0, len(data))
    return [(one.timestamp, one.key, one.value, tuple(one.headers)) for one in read_records(data)]


def with_gaps(batch: bytearray, kept: set[int]) -> bytearray:
    """The batch after compaction has removed all records but some."""
    header = read_header(batch)
    body = bytes(open_body(batch, header))
    left, at = bytearray(), 0
    for number in range(header.record_count):
        size, start = read_varint(body, at, len(body))
        if number in kept:
            left += body[at : start + size]
        at = start + size
    newest = header.base_timestamp + max(kept)
    return rewrite_batch(header, left, KeptRecords(len(kept), False, newest, bytes(left)), None)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_is_copied_as_it_is(codec: Compression) -> None:
    batch = build(range(10), codec)
    (copy,) = copy_batches(fetched(batch))
    assert copy.data[61:] == batch[61:]
    assert read_header(copy.data).is_transactional
    assert copy.spans(70) == [Span(0, 70, 10)]


@pytest.mark.parametrize("codec", CODECS)
def test_gaps_are_closed(codec: Compression) -> None:
    (whole,) = copy_batches(fetched(build(range(10), codec)))
    (copy,) = copy_batches(fetched(with_gaps(build(range(10), codec), {1, 4, 8})))
    header = read_header(copy.data)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert header.compression is codec
    assert records(copy) == [records(whole)[number] for number in (1, 4, 8)]
    assert copy.spans(50) == [Span(1, 50, 1), Span(8, 52, 1)]


def test_the_brokers_timestamps_become_those_of_the_copy() -> None:
    batch = build(range(5))
    set_log_append_time(batch, 0, 77_000)
    (copy,) = copy_batches(fetched(batch))
    assert {one[0] for one in records(copy)} == {77_000}
    assert read_header(copy.data).timestamp_type == 0


def test_a_batch_that_was_copied_in_part_is_continued() -> None:
    (whole,) = copy_batches(fetched(build(range(10))))
    (copy,) = copy_batches(fetched(build(range(10)), offset=6))
    assert records(copy) == records(whole)[6:]
    assert copy.spans(3) == [Span(6, 3, 4)]


def test_damage_is_not_copied() -> None:
    batch = build(range(10))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        list(copy_batches(fetched(batch)))
