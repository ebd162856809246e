"""Segments leave in memory at once, their files are renamed and removed later, and readers notice neither."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.storage.compacting import CONFIG as COMPACTED
from tests.unit.storage.compacting import compact, contents, filled
from tests.unit.storage.workbench import AnyBench, FolderBench, Workbench

from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import Crash, MemoryFileSystem
from tailrace.storage.retention import delete_files, delete_segments
from tailrace.storage.segment.segment import Segment

CONFIG = LogConfig(segment_bytes=200, index_interval_bytes=50, retention_ms=-1, file_delete_delay_ms=60_000)
FIRST = f"{0:020d}"


def fill(bench: AnyBench, config: LogConfig = CONFIG, count: int = 9) -> Log:
    """One batch a segment, so that a segment begins at each offset."""
    log = bench.open(config)
    for number in range(count):
        bench.append(log, b"%d" % number + b"v" * 100)
    assert [segment.base_offset for segment in log.segments] == list(range(count))
    return log


def stems(bench: Workbench, suffix: str) -> list[int]:
    return [int(name[:20]) for name in bench.files(suffix)]


def test_nothing_waits_for_the_disk_where_segments_leave(bench: Workbench) -> None:
    log = fill(bench)
    log.advance_log_start(5)
    bench.fs.calls.clear()
    assert log.apply_retention(0) == 5
    assert log.segments[0].base_offset == 5
    assert {operation for operation, _ in bench.fs.calls} <= {"write_file", "create"}, "but for the epochs' file"
    assert stems(bench, ".log") == list(range(9))


def test_files_are_renamed_and_removed_when_the_delay_is_over(bench: Workbench) -> None:
    log = fill(bench)
    delete_segments(log, 3)
    delete_files(log)
    assert stems(bench, ".log") == list(range(3, 9))
    assert stems(bench, ".log.deleted") == stems(bench, ".index.deleted") == stems(bench, ".timeindex.deleted")
    assert stems(bench, ".log.deleted") == [0, 1, 2]
    assert stems(bench, ".snapshot") == list(range(3, 9))
    deletions = bench.folder.deletions
    assert deletions.remove_due(1000) == 0
    delete_segments(log, 1)
    delete_files(log)
    assert deletions.remove_due(1001) == 0
    assert deletions.remove_due(60_999) == 0
    assert deletions.remove_due(61_000) == 3
    assert stems(bench, ".log.deleted") == [3]
    assert deletions.remove_due(61_001) == 1
    assert bench.files(".deleted") == []
    assert not deletions.is_waiting


def test_a_start_removes_what_waits_for_its_removal(bench: Workbench) -> None:
    log = fill(bench)
    delete_segments(log, 3)
    delete_files(log)
    log = bench.open(CONFIG)
    assert bench.files(".deleted") == []
    assert log.log_start_offset == 3


def test_a_clean_stop_leaves_nothing_to_be_removed(bench: Workbench) -> None:
    log = fill(bench)
    log.close()
    log = bench.open(CONFIG, recovery_point=9, is_clean=True)
    delete_segments(log, 3)
    log.close()
    assert bench.files(".deleted") == []
    assert stems(bench, ".log") == stems(bench, ".snapshot")[:-1] == list(range(3, 9))


@pytest.mark.parametrize("is_real", [False, True])
def test_a_reader_in_the_middle_is_not_disturbed(tmp_path: Path, is_real: bool) -> None:
    bench: AnyBench = FolderBench(RealFileSystem(), str(tmp_path)) if is_real else Workbench()
    log = fill(bench)
    ranges = [log.locate(number, 1000, 9, min_one_batch=True) for number in range(5)]
    before = [bytes(found.read()) for found in ranges]

    def read_again() -> None:
        for found, data in zip(ranges, before, strict=True):
            assert found.read() == data
            assert (found.read_cached() or data) == data

    def close_files() -> None:
        for found in ranges:
            assert isinstance(found.source, Segment)
            found.source._file = None  # as when too many are open

    close_files()
    delete_segments(log, 5)
    read_again()
    close_files()
    delete_files(log)
    read_again()
    close_files()
    bench.folder.deletions.finish(log.directory)
    read_again()
    assert not bench.folder.is_offline


def test_a_reader_is_never_given_a_later_segment_of_the_same_name(bench: Workbench) -> None:
    log = fill(bench)
    found = log.locate(0, 1000, 9, min_one_batch=True)
    before = bytes(found.read())
    delete_segments(log, 5)
    delete_files(log)
    log.truncate_fully(0)
    bench.append(log, b"other")
    assert found.read() == before
    delete_segments(log, 1)
    delete_files(log)
    assert found.read() == before


def test_files_that_could_not_be_renamed_are_tried_again(bench: Workbench) -> None:
    log = fill(bench)
    delete_segments(log, 3)
    calls = iter([None, Crash()])
    bench.fs.hook = lambda *call: next(calls) if call[1] == "rename" and call[2].endswith(".log") else None
    with pytest.raises(Crash):
        delete_files(log)
    assert [segment.base_offset for segment in bench.folder.deletions.leaving(log.directory)] == [1, 2]
    bench.fs.hook = None
    bench.fs._is_dead = False
    delete_segments(log, 1)
    delete_files(log)
    assert stems(bench, ".log") == list(range(4, 9))


def test_a_flush_counts_in_what_a_start_may_find(bench: Workbench) -> None:
    """The recovery point rose above segments that had left but kept their names, though they were not on the disk."""
    for seed in range(20):
        bench.fs = MemoryFileSystem(Random(seed))
        bench.fs.make_directory(bench.directory)
        bench.fs.sync_directory("/")
        bench.fs.sync_directory(bench.root)
        log = fill(bench)
        delete_segments(log, 5)
        log.flush()
        bench.fs.lose_power()
        log = bench.open(CONFIG, recovery_point=log.recovery_point)
        assert [offset for offset, _ in bench.values(log)] == list(range(9))


def test_a_topic_that_is_made_again_keeps_its_files(bench: Workbench) -> None:
    fs = MemoryFileSystem()
    fs.make_directory("/data")
    log_dir = LogDir.open(fs, "/data", bench.clock)
    for number in range(2):
        log = log_dir.create("t", 0, UUID(int=number + 1), CONFIG)
        for _ in range(4):
            bench.append(log, b"v" * 100)
        delete_segments(log, 2)
        delete_files(log)
        if number == 0:
            log_dir.remove_deleted_files()
            log_dir.delete("t", 0)
            bench.clock.time_ms += 60_000
    assert log_dir.remove_deleted_files() == 1  # the folder of the topic that was deleted, and nothing else
    found = [entry.name for entry in fs.list_directory("/data/t-0") if entry.name.endswith(".log.deleted")]
    assert len(found) == 2
    assert log_dir.has_deleted_files


def test_what_was_compacted_stays_as_long(bench: Workbench) -> None:
    log = bench.open(COMPACTED)
    filled(log, [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"a", b"3")])
    compact(log)
    kept = contents(log)
    assert stems(bench, ".log.deleted") == [0, 2]
    filled(log, [(b"a", b"4"), (b"a", b"5")])
    compact(log)
    bench.folder.deletions.remove_due(1000)
    assert stems(bench, ".log.deleted") == [0, 2, 4]
    bench.folder.deletions.remove_due(61_000)
    assert bench.files(".deleted") == []
    assert contents(log)[0] == kept[0]
    assert bench.open(COMPACTED).log_end_offset == log.log_end_offset
