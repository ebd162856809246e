"""Searching by time is exact: it is checked against looking at every record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header, set_log_append_time
from tailrace.records.compression import Compression
from tailrace.storage.log_config import LogConfig
from tailrace.storage.retention import delete_files
from tailrace.storage.timestamp_lookup import LookupOvertaken

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=80)


def test_the_first_record_at_or_after_a_time(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a", b"b", b"c", timestamps=(100, 300, 200), leader_epoch=4)
    assert log.offset_for_timestamp(0) == (100, 0, 4)
    assert log.offset_for_timestamp(101) == (300, 1, 4)
    assert log.offset_for_timestamp(300) == (300, 1, 4)
    assert log.offset_for_timestamp(301) is None
    assert log.max_timestamp_offset() == (300, 1, 4)


def test_an_empty_log_has_no_times(bench: Workbench) -> None:
    log = bench.open()
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    bench.append(log, b"a", timestamps=(-1,))
    assert log.max_timestamp_offset() is None


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_looked_into(bench: Workbench, compression: Compression) -> None:
    log = bench.open()
    data, header = bench.batch(b"a", b"b", b"c", timestamps=(1, 2, 3), compression=compression)
    log.append(data, header, 0)
    assert log.offset_for_timestamp(2) == (2, 1, 0)


def test_log_append_time_is_one_time_for_the_batch(bench: Workbench) -> None:
    log = bench.open()
    data, _ = bench.batch(b"a", b"b", b"c", timestamps=(1, 2, 3))
    set_log_append_time(data, 0, 777)
    log.append(data, read_header(data), 0)
    assert log.offset_for_timestamp(5) == (777, 0, 0)
    assert log.max_timestamp_offset() == (777, 0, 0)


def test_records_that_do_not_read_are_an_answer_and_no_crash(bench: Workbench) -> None:
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
def test_every_search_agrees_with_a_full_scan(batches: list[list[int]], start: float, reopen: bool) -> None:
    bench = Workbench()
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


@pytest.mark.parametrize("entry", range(8))
def test_a_wrong_entry_of_the_index_leads_nobody_astray(bench: Workbench, entry: int) -> None:
    """Index files have no checksum. An entry that claims a later offset would lead past records that are there."""
    log = bench.open(LogConfig(segment_bytes=2000, index_interval_bytes=50))
    for number in range(60):
        bench.append(log, b"v", timestamps=(number,))
    log.close()
    name = bench.files(".timeindex")[0]
    data = bytearray(bench.contents(name))
    assert len(data) // 12 > entry + 4
    data[12 * entry + 11] += 5  # the last byte of the entry's offset
    bench.fs.write_file(f"/data/t-0/{name}", bytes(data))
    log = bench.open(LogConfig(segment_bytes=2000, index_interval_bytes=50), recovery_point=60, is_clean=True)
    found = [log.offset_for_timestamp(number) for number in range(60)]
    assert [each and each.offset for each in found] == list(range(60))


def test_a_search_that_retention_overtakes_begins_again(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(20):
        bench.append(log, b"v", timestamps=(number,))
    log.close()
    log = bench.open(SMALL, recovery_point=20, is_clean=True)
    lookup = log.begin_lookup(3)
    log.advance_log_start(10)
    assert log.apply_retention(0) > 1
    assert lookup.run() == (3, 3, 0)  # below the start by now, which whoever asked looks at
    delete_files(log)
    assert lookup.run() == (3, 3, 0)
    bench.folder.deletions.finish(log.directory)
    for segment in lookup.segments:
        segment.forget()
    with pytest.raises(LookupOvertaken):
        lookup.run()
    assert not bench.folder.is_offline
    assert log.begin_lookup(3).run() == (10, 10, 0)
    assert bench.files(".timeindex")[0] >= f"{log.segments[0].base_offset:020d}.timeindex"
