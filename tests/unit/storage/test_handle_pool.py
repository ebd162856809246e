"""Segments close their files when too many are open, and nobody notices."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from tests.unit.storage.open_file import open_files
from tests.unit.storage.workbench import Workbench

from tailrace.base.limits import SECOND_CHANCES_MAX
from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.fs import Buffer, File, RealFileSystem
from tailrace.storage.handle_pool import HandlePool
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.recovery import open_log
from tailrace.storage.retention import delete_files
from tailrace.storage.segment.segment import Segment

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


class Holder:
    def __init__(self, *, is_unsynced: bool = False) -> None:
        self.forgot = 0
        self.synced = 0
        self.is_used = False
        self.is_unsynced = is_unsynced

    def forget(self) -> Callable[[], None] | None:
        self.forgot += 1
        return self.sync if self.is_unsynced else None

    def sync(self) -> None:
        self.synced += 1


@pytest.fixture
def holders() -> list[Holder]:
    return [Holder() for _ in range(5)]


def forgot(holders: list[Holder]) -> list[int]:
    return [holder.forgot for holder in holders]


def test_the_oldest_leave_when_there_is_no_room(holders: list[Holder]) -> None:
    pool = HandlePool(6)
    for holder in holders:
        pool.add(holder, 2)
    assert forgot(holders) == [1, 1, 0, 0, 0]
    assert (len(pool), pool.count) == (3, 6)


def test_a_holder_that_takes_more_is_counted_once(holders: list[Holder]) -> None:
    pool = HandlePool(10)
    pool.add(holders[0], 1)
    pool.add(holders[0], 3)
    assert pool.count == 3
    pool.discard(holders[0])
    pool.discard(holders[0])
    assert (len(pool), pool.count) == (0, 0)


def test_the_newest_stays_even_if_it_has_too_many(holders: list[Holder]) -> None:
    pool = HandlePool(2)
    pool.add(holders[0], 1)
    pool.add(holders[1], 3)
    assert forgot(holders[:2]) == [1, 0]
    assert len(pool) == 1


def test_who_was_used_stays_once_more(holders: list[Holder]) -> None:
    pool = HandlePool(3)
    for holder in holders[:3]:
        pool.add(holder, 1)
    holders[0].is_used = True
    pool.add(holders[3], 1)
    assert forgot(holders) == [0, 1, 0, 0, 0]
    pool.add(holders[4], 1)
    assert forgot(holders) == [0, 1, 1, 0, 0]


def test_the_unsynced_leave_last_and_only_after_a_sync() -> None:
    pool = HandlePool(2)
    unsynced, synced, another, last = Holder(is_unsynced=True), Holder(), Holder(is_unsynced=True), Holder()
    for holder in (unsynced, synced, another):
        pool.add(holder, 1)
    assert forgot([unsynced, synced, another]) == [0, 1, 0]
    pool.add(last, 1)
    assert (unsynced.forgot, unsynced.synced) == (1, 1)


def test_a_search_for_room_ends() -> None:
    pool = HandlePool(100)
    holders = [Holder(is_unsynced=True) for _ in range(101)]
    for holder in holders:
        holder.is_used = True
        pool.add(holder, 1)
    assert sum(forgot(holders)) == 1
    assert holders[SECOND_CHANCES_MAX].forgot == 1


def test_syncing_is_deferred_until_too_many_wait() -> None:
    pool = HandlePool(1)
    waiting: list[Callable[[], None]] = []
    pool.defer = waiting.append
    holders = [Holder(is_unsynced=True) for _ in range(40)]
    for holder in holders:
        pool.add(holder, 1)
    assert sum(forgot(holders)) == 39
    assert (len(waiting), sum(holder.synced for holder in holders)) == (16, 39 - 16)
    for job in waiting:
        job()
    pool.add(Holder(), 1)
    assert len(waiting) == 17


# --- segments


def limited(bench: Workbench, config: LogConfig = SMALL, count_max: int = 1) -> Log:
    """An open log that may hold so many descriptors."""
    log = bench.open(config)
    bench.folder.handles.count_max = count_max
    return log


def open_count(log: Log) -> int:
    return sum(segment._file is not None for segment in log.segments)


def test_what_was_closed_is_opened_again(bench: Workbench) -> None:
    log = limited(bench)
    for number in range(60):
        bench.append(log, b"%d" % number, timestamps=(1000 + number,))
        assert bench.folder.handles.count <= 1
    assert len(log.segments) > 5
    assert bench.values(log) == [(number, b"%d" % number) for number in range(60)]
    for number in range(60):
        assert log.offset_for_timestamp(1000 + number) == (1000 + number, number, 0)
    assert open_count(log) <= 1


def test_the_active_segment_gives_back_its_file_but_not_its_indexes(bench: Workbench) -> None:
    log = limited(bench)
    for number in range(58):
        bench.append(log, b"%d" % number)
    log.close()
    log = bench.open(SMALL, recovery_point=58, is_clean=True)
    bench.folder.handles.count_max = 1
    active = log.segments[-1]
    bench.append(log, b"58")
    assert active is log.segments[-1]
    indexes = active.offset_index, active.time_index
    bench.values(log)
    log.read(0, 10, 1, min_one_batch=True)
    assert active._file is None
    assert (active._offset_index, active._time_index) == indexes
    log.truncate_to(20)
    active = log.segments[-1]
    indexes = active.offset_index, active.time_index
    assert len(bench.values(log)) == 20
    assert (active._offset_index, active._time_index) == indexes


def test_what_is_closed_is_synced(bench: Workbench) -> None:
    """Were it not, the kernel might drop bytes that it cannot write, and nobody would hear of it."""
    log = limited(bench)
    bench.append(log, b"a")
    log.roll()
    first = log.segments[0]
    assert first._file is None
    assert bench.fs.calls["sync", "00000000000000000000.log"] == 1
    assert not first.is_unsynced
    log.flush()
    assert bench.fs.calls["sync", "00000000000000000000.log"] == 1
    bench.fs.lose_power()
    assert len(bench.contents("00000000000000000000.log")) == first.size_bytes


def test_a_sync_that_fails_before_closing_takes_the_folder_offline(bench: Workbench) -> None:
    log = limited(bench)
    bench.append(log, b"a")
    bench.fs.hook = lambda _, operation, path: OSError(errno.EIO, "no") if operation == "sync" else None
    log.roll()
    assert bench.folder.is_offline
    with pytest.raises(StorageError):
        bench.append(log, b"b")


def test_an_append_that_loses_its_file_to_another_thread_takes_it_back(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    active = log.segments[-1]
    file = active.file

    class Interrupted:
        path = file.path

        def write_at(self, data: Buffer, position: int) -> None:
            file.write_at(data, position)
            active.forget()

        def sync(self) -> None:
            file.sync()

    active._file = interrupted = cast(File, Interrupted())  # an append calls nothing else of a file
    bench.append(log, b"b")
    assert active._file is interrupted
    assert active.is_unsynced


def test_a_range_is_read_although_its_file_was_closed_and_deleted(bench: Workbench) -> None:
    log = limited(bench)
    for number in range(20):
        bench.append(log, b"%d" % number)
    found = log.locate(0, 1000, 20, min_one_batch=True)
    whole = found.read()
    assert whole == log.read(0, 1000, 20, min_one_batch=True)
    log.read(19, 1000, 20, min_one_batch=True)
    assert isinstance(found.source, Segment)
    assert found.source._file is None
    log.advance_log_start(20)
    assert log.apply_retention(0) > 0
    delete_files(log)
    bench.folder.deletions.finish(log.directory)
    assert found.read() == whole


def test_a_range_of_a_partition_that_is_gone_takes_nothing_offline(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    found = log.locate(0, 1000, 1, min_one_batch=True)
    log.abandon()
    bench.fs.remove("/data/t-0/00000000000000000000.log")
    with pytest.raises(StorageError):
        found.read()
    assert not bench.folder.is_offline


def test_a_segment_that_could_not_be_sealed_stays_active_and_forgets_nothing(bench: Workbench) -> None:
    log = limited(bench)
    for number in range(20):
        bench.append(log, b"%d" % number)
    bench.fs.hook = lambda number, operation, path: (
        OSError(errno.ENOSPC, "full") if operation == "create" and path.endswith(".log") else None
    )
    active = log.segments[-1]
    with pytest.raises(StorageError):
        log.roll()
    bench.fs.hook = None
    assert active is log.segments[-1]
    assert not active.is_sealed
    indexes = active.offset_index, active.time_index
    assert len(bench.values(log)) == 20
    assert (active._offset_index, active._time_index) == indexes
    log.roll()
    assert active.is_sealed


def test_deleted_segments_take_no_handles(bench: Workbench) -> None:
    log = bench.open(SMALL)
    for number in range(60):
        bench.append(log, b"%d" % number)
    assert len(bench.folder.handles) == len(log.segments)
    log.advance_log_start(60)
    log.apply_retention(0)
    delete_files(log)
    assert len(bench.folder.handles) == len(log.segments)
    log.truncate_to(60)
    log.truncate_fully(5)
    assert len(bench.folder.handles) == 1
    log.close()
    assert len(bench.folder.handles) == bench.folder.handles.count == 0


# --- mapped files


def test_large_indexes_are_mapped_and_take_descriptors(bench: Workbench, tmp_path: Path) -> None:
    folder = Folder(RealFileSystem(), str(tmp_path))
    config = LogConfig(segment_bytes=200_000, index_interval_bytes=100)
    log = open_log(folder, str(tmp_path), bench.clock, config)
    for number in range(1500):
        bench.append(log, b"x" * 200, timestamps=(number,))
    assert len(log.segments) == 3
    first = log.segments[0]
    assert log.read(300, 400, 1500, min_one_batch=True)
    assert log.offset_for_timestamp(300) == (300, 300, 0)
    with open("/proc/self/maps") as maps:
        mapped = {line.split("/")[-1].strip() for line in maps if str(tmp_path) in line}
    assert mapped == {"00000000000000000000.index", "00000000000000000000.timeindex"}
    assert first.handle_count == 3
    assert folder.handles.count == 5 == len(open_files(tmp_path))
    folder.handles.count_max = 2
    for offset in (800, 0, 1400, 800, 0):
        assert log.read(offset, 400, 1500, min_one_batch=True)
        # The newest segment may take a mapping more than there is room for.
        assert len(open_files(tmp_path)) <= 3
    log.close()
    assert open_files(tmp_path) == []


def test_a_mapping_outlives_its_name_and_a_new_file_in_its_place(tmp_path: Path) -> None:
    """Writing over a file that is mapped would take its pages away, and looking at one of those ends the process."""
    fs, path = RealFileSystem(), str(tmp_path / "a")
    fs.write_file(path, b"x" * 10_000)
    mapping = fs.map_file(path)
    fs.remove(path)
    fs.write_file(path, b"short")
    assert mapping is not None
    assert mapping[9_999] == ord("x")
    assert fs.map_file(path) == b"short"
    assert fs.map_file(str(tmp_path / "none")) is None


def test_a_file_is_read_where_no_mapping_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs, path = RealFileSystem(), str(tmp_path / "a")
    fs.write_file(path, b"x" * 10_000)

    def refuse(*_: object, **__: object) -> object:
        raise OSError(errno.ENOMEM, "too many mappings")

    monkeypatch.setattr("mmap.mmap", refuse)
    assert fs.map_file(path) == b"x" * 10_000
