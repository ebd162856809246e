"""Appending, reading, rolling and cutting a log."""

import errno
from itertools import pairwise

import pytest
from tests.now import now
from tests.unit.storage.workbench import Workbench

from tailrace.base.invariant import InvariantError
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import read_header
from tailrace.records.record import read_batches
from tailrace.storage.error import StorageError
from tailrace.storage.log_config import LogConfig
from tailrace.storage.retention import delete_files

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
EVERYTHING = 1 << 30


def test_offsets_run_on_and_are_put_into_the_batch(bench: Workbench) -> None:
    log = bench.open()
    data, header = bench.batch(b"a", b"b", b"c")
    assert log.append(data, header, 5) == 0
    assert log.append(data, header, 5) == 3
    assert log.log_end_offset == 6
    stored = log.read(0, EVERYTHING, 6, min_one_batch=False)
    headers = [found for _, found in read_batches(stored)]
    assert [found.base_offset for found in headers] == [0, 3]
    assert [found.partition_leader_epoch for found in headers] == [5, 5]
    assert bytes(data) == stored[len(data) :]
    assert bench.values(log) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"a"), (4, b"b"), (5, b"c")]


def test_a_memoryview_is_appended_without_a_copy_of_it_being_asked_for(bench: Workbench) -> None:
    log = bench.open()
    data, header = bench.batch(b"a")
    frame = bytearray(b"prefix") + data + b"suffix"
    log.append(memoryview(frame)[6 : 6 + len(data)], header, 0)
    assert bench.values(log) == [(0, b"a")]


def test_only_one_whole_batch_is_taken(bench: Workbench) -> None:
    log = bench.open()
    data, header = bench.batch(b"a")
    with pytest.raises(InvariantError):
        log.append(data + b"x", header, 0)


def test_the_log_file_is_the_batches_one_after_the_other(bench: Workbench) -> None:
    log = bench.open()
    data, header = bench.batch(b"a")
    copies = b""
    for _ in range(3):
        log.append(data, header, 0)
        copies += bytes(data)
    assert bench.contents("00000000000000000000.log") == copies


def test_a_log_is_read_from_any_offset(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(40):
        bench.append(log, *[b"%d" % number] * (1 + number % 3))
    assert len(log.segments) > 5
    for offset in range(log.log_end_offset):
        data = log.read(offset, EVERYTHING, log.log_end_offset, min_one_batch=True)
        _, header = next(read_batches(data))
        assert header.base_offset <= offset <= header.last_offset


def test_a_read_ends_inside_a_batch_or_with_the_first_whole(bench: Workbench) -> None:
    log = bench.open()
    for _ in range(3):
        bench.append(log, b"x" * 100)
    size = log.size_bytes // 3
    assert len(log.read(0, size + 10, 3, min_one_batch=False)) == size + 10
    assert len(log.read(0, 10, 3, min_one_batch=False)) == 0
    assert len(log.read(0, 10, 3, min_one_batch=True)) == size
    assert len(log.read(0, 0, 3, min_one_batch=True)) == size
    assert len(log.read(0, 0, 3, min_one_batch=False)) == 0
    assert len(log.read(1, EVERYTHING, 3, min_one_batch=True)) == 2 * size


def test_nothing_reaches_beyond_the_offset_asked_for(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(40):
        bench.append(log, *[b"%d" % number] * (1 + number % 3))
    for up_to in range(log.log_end_offset + 1):
        for offset in range(0, up_to, 7):
            data = log.read(offset, EVERYTHING, up_to, min_one_batch=True)
            assert all(header.last_offset < up_to for _, header in read_batches(data))
            assert sum(header.size_bytes for _, header in read_batches(data)) == len(data)


def test_the_end_reads_as_nothing_and_beyond_is_out_of_range(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a", b"b")
    assert log.read(2, EVERYTHING, 2, min_one_batch=True) == b""
    assert log.read(0, EVERYTHING, 0, min_one_batch=True) == b""
    assert log.locate(2, EVERYTHING, 2, min_one_batch=True).size_bytes == 0
    assert log.locate(2, EVERYTHING, 2, min_one_batch=True).read_cached() == b""
    for offset in (-1, 3):
        with pytest.raises(ApiError) as caught:
            log.read(offset, EVERYTHING, 2, min_one_batch=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_below_the_start_is_out_of_range(bench: Workbench) -> None:
    log = bench.open()
    for _ in range(4):
        bench.append(log, b"a")
    log.advance_log_start(2)
    assert bench.values(log) == [(2, b"a"), (3, b"a")]
    with pytest.raises(ApiError) as caught:
        log.read(1, EVERYTHING, 4, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_log_start(1)
    assert log.log_start_offset == 2
    with pytest.raises(InvariantError):
        log.advance_log_start(5)


def test_a_range_survives_the_deletion_of_its_segment(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for _ in range(20):
        bench.append(log, b"x" * 50)
    found = log.locate(0, EVERYTHING, log.log_end_offset, min_one_batch=True)
    before = found.read()
    log.advance_log_start(log.segments[1].base_offset)
    assert log.apply_retention(bench.clock.time_ms) == 1
    delete_files(log)
    bench.folder.deletions.finish(log.directory)
    assert bench.files()[0] == f"{log.segments[0].base_offset:020d}.index"
    assert found.read() == before
    assert found.read_cached() == before
    bench.fs.is_cold = True
    assert found.read_cached() is None


def test_segments_roll_by_size(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=300))
    for _ in range(10):
        bench.append(log, b"x" * 30)
    size = log.size_bytes // 10
    per_segment = 300 // size
    assert [segment.base_offset for segment in log.segments] == list(range(0, 10, per_segment))
    assert all(segment.size_bytes <= 300 for segment in log.segments)
    assert bench.files(".log") == [f"{base:020d}.log" for base in range(0, 10, per_segment)]


def test_a_batch_larger_than_a_segment_is_refused(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=200))
    with pytest.raises(ApiError) as caught:
        bench.append(log, b"x" * 200)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    bench.append(log, b"x" * 10)
    with pytest.raises(ApiError):
        bench.append(log, b"x" * 200)
    assert bench.values(log) == [(0, b"x" * 10)]


def test_segments_roll_by_the_time_of_their_records(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_ms=100))
    for timestamp in (1000, 1100, 1101, 1150, 1201, 1202):
        bench.append(log, b"v", timestamps=(timestamp,))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]


def test_segments_roll_by_the_clock_when_records_have_no_time(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_ms=100))
    for step_ms in (0, 100, 1):
        bench.clock.time_ms += step_ms
        bench.append(log, b"v", timestamps=(-1,))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(bench: Workbench) -> None:
    # Room for three offset entries and, with one kept back for sealing, one time entry.
    log = bench.open(LogConfig(index_interval_bytes=1, segment_index_bytes=24))
    for number in range(12):
        bench.append(log, b"v", timestamps=(1000 + number,))
    assert len(log.segments) > 3
    assert all(len(segment.time_index) <= 2 for segment in log.segments)
    log = bench.open(LogConfig(index_interval_bytes=1, segment_index_bytes=24))
    assert len(bench.values(log)) == 12


def test_segments_roll_before_a_relative_offset_overflows(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"v")
    log.log_end_offset = 2**31 - 1
    bench.append(log, b"v")
    assert len(log.segments) == 1
    bench.append(log, b"v")
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_rolling_an_empty_segment_changes_nothing(bench: Workbench) -> None:
    log = bench.open()
    log.roll()
    log.roll()
    assert len(log.segments) == 1
    bench.append(log, b"v")
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_jitter_closes_segments_at_different_ages(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_ms=1000, segment_jitter_ms=900))
    for time_ms in range(0, 20_000, 10):
        bench.append(log, b"v", timestamps=(time_ms,))
    ages = [later.first_timestamp - sooner.first_timestamp for sooner, later in pairwise(log.segments)]
    assert all(100 <= age <= 1010 for age in ages)
    assert len(set(ages)) > len(ages) // 2


def test_a_swapped_config_counts_from_the_next_append(bench: Workbench) -> None:
    log = bench.open()
    for _ in range(3):
        bench.append(log, b"x" * 100)
    log.reconfigure(LogConfig(segment_bytes=200, producer_id_expiration_ms=5))
    assert log.producers.expiration_ms == 5
    bench.append(log, b"x" * 100)
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_sealed_segments_have_their_index_files(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(20):
        bench.append(log, b"x" * 20, timestamps=(5000 - number,))
    sealed = log.segments[:-1]
    for segment in sealed:
        name = f"{segment.base_offset:020d}"
        assert bench.contents(f"{name}.index") == segment.offset_index.encode() != b""
        assert bench.contents(f"{name}.timeindex") == segment.time_index.encode()
        # Timestamps fall, so the first batch has the largest: one entry.
        assert len(segment.time_index) == 1
    assert bench.files(".snapshot") == [f"{segment.base_offset:020d}.snapshot" for segment in log.segments[1:]]


def test_epochs_begin_with_their_first_batch(bench: Workbench) -> None:
    log = bench.open()
    for leader_epoch in (0, 0, 3, 3, 4):
        bench.append(log, b"v", leader_epoch=leader_epoch)
    assert log.epochs.starts == ((0, 0), (3, 2), (4, 4))
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(2) == (0, 2)
    assert log.end_offset_for_epoch(4) == (4, 5)
    assert log.end_offset_for_epoch(5) == (-1, -1)


def test_producers_know_the_offsets_that_were_given(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"other")
    assert bench.produce(log, 0, count=2) == 1
    assert bench.produce(log, 2) == 3
    duplicate = log.producers.check(bench.header(0, count=2))
    assert duplicate is not None
    assert duplicate.base_offset == 1


def test_truncation_cuts_whole_batches(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(20):
        bench.append(log, b"%d" % number, b"second")
    before = bench.values(log)
    log.truncate_to(40)
    assert bench.values(log) == before
    log.truncate_to(31)  # inside the batch of 30 and 31
    assert log.log_end_offset == 30
    assert bench.values(log) == before[:30]
    log.truncate_to(8)
    assert bench.values(log) == before[:8]
    assert bench.append(log, b"new", b"newer") == 8
    assert bench.values(log) == [*before[:8], (8, b"new"), (9, b"newer")]
    assert bench.values(bench.open(SMALL)) == bench.values(log)


def test_truncation_takes_epochs_producers_and_timestamps_along(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(12):
        data, header = bench.batch(
            b"x" * 30, timestamps=(5000 + number,), producer_id=number % 2, producer_epoch=0, base_sequence=number // 2
        )
        log.append(data, header, number // 4)
    log.truncate_to(9)
    assert now(log.epochs.starts) == ((0, 0), (1, 4), (2, 8))
    log.truncate_to(7)
    assert log.epochs.starts == ((0, 0), (1, 4))
    assert log.producers.entries[0].last_sequence == 3
    assert log.producers.entries[1].last_sequence == 2
    assert max(segment.maximum for segment in log.segments) == (5006, 6)
    assert bench.files(".snapshot")[-1] <= f"{7:020d}.snapshot"


def test_truncating_below_the_log_empties_it(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for _ in range(20):
        bench.append(log, b"x" * 30)
    log.truncate_to(0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert bench.append(log, b"again") == 0
    assert bench.values(log) == [(0, b"again")]
    log.truncate_fully(500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert log.latest_epoch == -1
    assert bench.append(log, b"far") == 500
    assert bench.values(log) == [(500, b"far")]
    assert bench.files(".log") == [f"{500:020d}.log"]


def test_truncation_lowers_the_recovery_point_before_it_cuts(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for _ in range(20):
        bench.append(log, b"x" * 30)
    log.flush()
    seen = []
    log.on_truncation = lambda: seen.append((log.recovery_point, log.log_end_offset))
    log.truncate_to(5)
    assert seen == [(5, 20)]
    log.truncate_to(5)
    assert len(seen) == 1


def test_a_flush_syncs_everything_up_to_the_end(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for _ in range(20):
        bench.append(log, b"x" * 30)
    assert log.recovery_point == 0
    assert now(log.has_unflushed_segment)
    log.flush()
    assert log.recovery_point == 20
    assert not log.has_unflushed_segment
    bench.fs.lose_power()
    assert len(bench.values(bench.open(SMALL, recovery_point=20))) == 20


def test_sealed_segments_are_flushed_without_the_active_one(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for _ in range(20):
        bench.append(log, b"x" * 30)
    active_base_offset = log.segments[-1].base_offset
    flush = log.begin_flush(sealed_only=True)
    bench.append(log, b"x" * 30)
    flush.run()
    log.end_flush(flush)
    assert log.recovery_point == active_base_offset
    active = f"{active_base_offset:020d}.log"
    assert bench.fs.calls["sync", active] == 0


def test_a_flush_that_a_truncation_overtook_counts_for_nothing(bench: Workbench) -> None:
    log = bench.open()
    for _ in range(3):
        bench.append(log, b"a")
    flush = log.begin_flush()
    flush.run()
    log.truncate_to(1)
    bench.append(log, b"b")
    log.end_flush(flush)
    assert log.recovery_point == 0


def test_flush_messages_is_told_when_it_is_due(bench: Workbench) -> None:
    log = bench.open(LogConfig(flush_messages=3))
    bench.append(log, b"a", b"b")
    assert not now(log.is_flush_wanted)
    bench.append(log, b"c")
    assert now(log.is_flush_wanted)
    flush = log.begin_flush()
    bench.append(log, b"d", b"e")
    assert not log.is_flush_wanted  # what the flush covers that has begun does not count
    flush.run()
    log.end_flush(flush)
    bench.append(log, b"f")
    assert log.is_flush_wanted


def test_a_flush_syncs_the_folder_only_when_it_has_new_names(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    log.flush()
    before = bench.fs.calls["sync_directory", "t-0"]
    for _ in range(3):
        bench.append(log, b"a")
        log.flush()
    assert bench.fs.calls["sync_directory", "t-0"] == before
    bench.append(log, b"a")
    log.roll()
    log.flush()
    assert bench.fs.calls["sync_directory", "t-0"] == before + 1


def test_without_flush_messages_no_append_syncs(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")  # the first of an epoch writes the epoch file
    before = sum(count for (operation, _), count in bench.fs.calls.items() if operation.startswith("sync"))
    for _ in range(50):
        bench.append(log, b"a")
    after = sum(count for (operation, _), count in bench.fs.calls.items() if operation.startswith("sync"))
    assert after == before


def test_flush_ms_is_told_when_it_is_due(bench: Workbench) -> None:
    log = bench.open(LogConfig(flush_ms=100))
    bench.clock.time_ms += 200
    assert not log.is_flush_due()
    bench.append(log, b"a")
    assert log.is_flush_due()
    log.flush()
    bench.append(log, b"a")
    assert not log.is_flush_due()
    bench.clock.time_ms += 100
    assert log.is_flush_due()


def test_a_failed_sync_takes_the_folder_offline_for_good(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    bench.fs.hook = lambda number, operation, path: OSError(errno.ENOSPC, "full") if operation == "sync" else None
    with pytest.raises(StorageError):
        log.flush()
    bench.fs.hook = None
    assert bench.folder.is_offline
    assert log.recovery_point == 0
    for operation in (
        log.flush,
        lambda: bench.append(log, b"b"),
        lambda: log.read(0, EVERYTHING, 1, min_one_batch=True),
        lambda: log.truncate_to(0),
        lambda: log.apply_retention(0),
        log.close,
    ):
        with pytest.raises(StorageError):
            operation()
    assert bench.fs.calls["sync", "00000000000000000000.log"] == 1


def test_a_broken_disk_takes_the_folder_offline_and_a_full_one_does_not(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    for number, is_offline in ((errno.ENOSPC, False), (errno.EROFS, False), (errno.EIO, True)):
        bench.fs.hook = lambda _, operation, path, number=number: (
            OSError(number, "no") if operation == "write_at" else None
        )
        with pytest.raises(StorageError):
            bench.append(log, b"b")
        bench.fs.hook = None
        assert bench.folder.is_offline is is_offline
        assert log.log_end_offset == 1


def test_an_unreadable_disk_takes_the_folder_offline(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    bench.fs.hook = lambda number, operation, path: OSError(errno.EIO, "no") if operation == "read_at" else None
    with pytest.raises(StorageError):
        log.read(0, EVERYTHING, 1, min_one_batch=True)
    assert bench.folder.is_offline


def test_a_closed_log_takes_nothing(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    log.close()
    log.close()
    with pytest.raises(InvariantError):
        bench.append(log, b"b")


def test_damage_in_the_middle_is_told_to_the_reader_and_stays_its_own(bench: Workbench) -> None:
    log = bench.open(LogConfig(index_interval_bytes=1 << 20))
    for _ in range(3):
        bench.append(log, b"a" * 10)
    size = log.size_bytes // 3
    damaged = bytearray(bench.contents("00000000000000000000.log"))
    damaged[size + 16] = 99  # the magic of the second batch
    bench.fs.open("/data/t-0/00000000000000000000.log").write_at(damaged, 0)
    with pytest.raises(ApiError) as caught:
        log.read(1, EVERYTHING, 3, min_one_batch=True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert f"00000000000000000000.log at position {size}" in str(caught.value)
    assert read_header(log.read(2, EVERYTHING, 3, min_one_batch=True)).base_offset == 2
    assert read_header(log.read(0, size, 3, min_one_batch=True)).base_offset == 0
    assert not bench.folder.is_offline
