"""Searching by time is exact: it is checked against looking at every record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import read_header, set_log_append_time
from runnel.records.compression import Compression
from runnel.storage.log_config import LogConfig

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=80)


def test_the_first_record_at_or_after_a_time(bench) -> None:
    log = bench.open()
    bench.append(log, b"a", b"b", b"c", timestamps=(100, 300, 200), leader_epoch=4)
    assert log.offset_for_timestamp(0) == (100, 0, 4)
    assert log.offset_for_timestamp(101) == (300, 1, 4)
    assert log.offset_for_timestamp(300) == (300, 1, 4)
    assert log.offset_for_timestamp(301) is None
    assert log.max_timestamp_offset() == (300, 1, 4)


def test_an_empty_log_has_no_times(bench) -> None:
    log = bench.open()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    bench.append(log, b"a", timestamps=(-1,))
    assert log.max_timestamp_offset() is None


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_looked_into(bench, compression: Compression) -> None:
    log = bench.open()
    data, header = bench.batch(b"a", b"b", b"c", timestamps=(1, 2, 3), compression=compression)
    log.append(data, header, 0)
    assert log.offset_for_timestamp(2) == (2, 1, 0)


def test_log_append_time_is_one_time_for_the_batch(bench) -> None:
    log = bench.open()
    data, _ = bench.batch(b"a", b"b", b"c", timestamps=(1, 2, 3))
    set_log_append_time(data, 0, 777)
    log.append(data, read_header(data), 0)
    assert log.offset_for_timestamp(5) == (777, 0, 0)
    assert log.max_timestamp_offset() == (777, 0, 0)


def test_records_that_do_not_read_are_an_answer_and_no_crash(bench) -> None:
    log = bench.open()
    data, header = bench.batch(b"a", timestamps=(5,))
    data[61] = 0x7F  # the first record's length
    log.append(data, header, 0)
    with pytest.raises(ApiError) as caught:
        log.offset_for_timestamp(5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), max_size=25),
    start=st.floats(0, 1),
    reopen=st.booleans(),
)
def test_every_search_agrees_with_a_full_scan(make_bench, batches, start: float, reopen: bool) -> None:
    bench = make_bench()
    log = bench.open(SMALL)
    for timestamps in batches:
        bench.append(log, *[b"v"] * len(timestamps), timestamps=tuple(timestamps))
    if reopen:
        log.close()
        log = bench.open(SMALL, recovery_point=log.log_end_offset, is_clean=True)
    log.advance_log_start(int(start * log.log_end_offset))
    times = [(record.timestamp, record.offset) for record in bench.records(log)]
    for target in range(62):
        expected = next((pair for pair in times if pair[0] >= target), None)
        found = log.offset_for_timestamp(target)
        assert (found and found[:2]) == expected
    newest = max(times, key=lambda pair: (pair[0], -pair[1]), default=None)
    found = log.max_timestamp_offset()
    assert (found and found[:2]) == newest
