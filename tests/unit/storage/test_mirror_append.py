"""Any way of sending a source's batches ends in the same log: in parts, again, overlapping, with restarts between."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sample import make_batch, records_of
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError
from tailrace.records.batch import assign_offsets, check_crc, read_header
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_batches
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.mirror_append import MIRRORED_PRODUCER_BIT, adopt, new_batches

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
EPOCH = 5


class SourceBatch(NamedTuple):
    """A batch of the source, and the offset behind the one before it."""

    from_offset: int
    data: bytearray


def build_source(gaps: list[int]) -> list[SourceBatch]:
    """One batch after each gap; every other one is of a producer."""
    batches: list[SourceBatch] = []
    offset = 0
    for number, gap in enumerate(gaps):
        producer = (3, 0, number) if number % 2 else (-1, -1, -1)
        data = make_batch(b"%d" % number, *[b"x"] * (number % 3), producer=producer)
        assign_offsets(data, 0, offset + gap, 40 - number)
        batches.append(SourceBatch(offset, data))
        offset = read_header(data).next_offset
    return batches


def append(log: Log, data: bytearray) -> None:
    """Append as the leader of the copy does."""
    for batch, header in new_batches(log, memoryview(data)):
        log.append(batch, adopt(batch, header, EPOCH), EPOCH, header.base_offset)


def read_all(log: Log) -> bytes:
    found, offset = b"", 0
    while data := bytes(log.read(offset, 2**20, log.log_end_offset, True)):
        found += data
        offset = max(header.next_offset for _, header in read_batches(data))
    return found


@settings(max_examples=25, deadline=None)
@given(data=st.data(), gaps=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_the_log_is_the_sources(data: st.DataObject, gaps: list[int]) -> None:
    bench, source = Workbench(), build_source(gaps)
    log = bench.open(SMALL)
    have = 0
    while have < len(source):
        start = data.draw(st.integers(0, have), label="first batch")
        stop = data.draw(st.integers(start + 1, len(source)), label="last batch")
        append(log, bytearray(b"".join(batch.data for batch in source[start:stop])))
        have = max(have, stop)
        assert log.log_end_offset == read_header(source[have - 1].data).next_offset
        if data.draw(st.booleans(), label="restart"):
            log.close()
            log = bench.open(SMALL)
            assert log.log_end_offset == read_header(source[have - 1].data).next_offset
    stored = read_all(log)
    assert records_of(stored) == [record for batch in source for record in records_of(batch.data)]
    for position, header in read_batches(stored):
        assert check_crc(stored, position, header)
        assert header.partition_leader_epoch == EPOCH
        assert header.producer_id in (-1, MIRRORED_PRODUCER_BIT | 3)


def test_a_batch_across_the_end_of_the_log_is_refused() -> None:
    bench = Workbench()
    log = bench.open()
    first, across = make_batch(b"a", b"b"), make_batch(b"c", b"d")
    append(log, first)
    assign_offsets(across, 0, 1, 0)
    with pytest.raises(ApiError, match=r"INVALID_RECORD: .* it ends at 2, and the log ends at 2"):
        append(log, across)
    assert log.log_end_offset == 2


def test_bytes_behind_the_last_batch_are_refused_after_it_is_appended() -> None:
    log = Workbench().open()
    with pytest.raises(CorruptBatch, match="3 bytes at the end are not a whole batch"):
        append(log, make_batch(b"a") + b"xyz")
    assert log.log_end_offset == 1
