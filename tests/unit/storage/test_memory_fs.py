"""The file system in memory loses exactly what a real one may lose."""

import errno
from random import Random

import pytest

from tailrace.storage.error import StorageError
from tailrace.storage.fs import write_atomically
from tailrace.storage.memory_fs import Crash, MemoryFileSystem

SEEDS = range(200)


def fresh(seed: int = 0) -> MemoryFileSystem:
    fs = MemoryFileSystem(Random(seed))
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def test_a_kill_keeps_everything_written() -> None:
    fs = fresh()
    fs.create("/data/a").write_at(b"unsynced", 0)
    fs.kill()
    assert fs.read_file("/data/a") == b"unsynced"


def test_power_loss_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    outcomes = set()
    for seed in SEEDS:
        fs = fresh(seed)
        file = fs.create("/data/a")
        file.write_at(b"synced", 0)
        file.sync()
        fs.sync_directory("/data")
        file.write_at(b" one", 6)
        file.write_at(b" two", 10)
        fs.lose_power()
        data = fs.read_file("/data/a")
        assert data is not None
        assert data.startswith(b"synced")
        assert len(data) in (6, 10, 14)
        assert all(found in (0, wanted) for found, wanted in zip(data, b"synced one two", strict=False))
        outcomes.add(data)
    assert {b"synced", b"synced one", b"synced one two"} <= outcomes
    assert any(0 in data[6:10] and any(data[10:]) for data in outcomes), "the second write without the first"
    assert any(0 < data[6:10].count(0) < 4 for data in outcomes), "torn inside a write"


def test_sectors_written_twice_are_old_or_new() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        file = fs.create("/data/a")
        file.write_at(b"a" * 1024, 0)
        file.sync()
        fs.sync_directory("/data")
        file.write_at(b"b" * 1024, 0)
        fs.lose_power()
        data = fs.read_file("/data/a") or b""
        assert set(data) <= set(b"ab")
        seen.add((data[0], data[512]))
    assert seen == {(97, 97), (97, 98), (98, 97), (98, 98)}


def test_a_cut_that_was_not_synced_may_come_undone() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        file = fs.create("/data/a")
        file.write_at(b"abcdef", 0)
        file.sync()
        fs.sync_directory("/data")
        file.truncate(3)
        fs.lose_power()
        seen.add(fs.read_file("/data/a"))
    assert seen == {b"abc", b"abcdef"}


def test_a_failed_sync_is_followed_by_one_that_saves_nothing() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        file = fs.create("/data/a")
        fs.sync_directory("/data")
        file.write_at(b"lost", 0)
        fs.hook = lambda number, operation, path: OSError(errno.EIO, "broken") if operation == "sync" else None
        with pytest.raises(StorageError):
            file.sync()
        fs.hook = None
        file.sync()
        assert fs.read_file("/data/a") == b"lost", "the page cache still has it"
        fs.kill()
        data = fs.read_file("/data/a")
        fs.lose_power()
        assert fs.read_file("/data/a") == data
        seen.add(data)
    assert {b"", b"lost"} <= seen


def test_names_that_a_failed_sync_dropped_are_dropped_for_the_next_process() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        fs.create("/data/a").sync()
        fs.hook = lambda number, operation, path: (
            OSError(errno.EIO, "broken") if operation == "sync_directory" else None
        )
        with pytest.raises(StorageError):
            fs.sync_directory("/data")
        fs.hook = None
        fs.sync_directory("/data")
        assert fs.exists("/data/a")
        fs.kill()
        exists = fs.exists("/data/a")
        fs.lose_power()
        assert fs.exists("/data/a") == exists
        seen.add(exists)
    assert seen == {True, False}


def test_names_survive_in_any_combination() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        for name in "abc":
            fs.create(f"/data/{name}")
        fs.lose_power()
        seen.add("".join(sorted(entry.name for entry in fs.list_directory("/data"))))
    assert seen == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_a_rename_is_there_as_a_whole_or_not_at_all() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        fs.create("/data/a").sync()
        fs.sync_directory("/data")
        fs.rename("/data/a", "/data/b")
        fs.rename("/data/b", "/data/c")
        fs.lose_power()
        seen.add("".join(sorted(entry.name for entry in fs.list_directory("/data"))))
    assert seen == {"a", "b", "c"}


def test_power_loss_forgets_names_that_were_not_synced() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        file = fs.create("/data/a")
        file.write_at(b"data", 0)
        file.sync()
        fs.lose_power()
        seen.add(fs.read_file("/data/a"))
    assert seen == {None, b"data"}


def test_removed_names_may_come_back_until_synced() -> None:
    seen = set()
    for seed in SEEDS:
        fs = fresh(seed)
        fs.create("/data/a").sync()
        fs.sync_directory("/data")
        fs.remove("/data/a")
        fs.lose_power()
        seen.add(fs.exists("/data/a"))
    assert seen == {True, False}


def test_an_atomic_write_is_the_old_or_the_new_file_after_any_crash() -> None:
    fs = fresh()
    write_atomically(fs, "/data/a", b"old")
    before = fs.call_count
    write_atomically(fs, "/data/a", b"new")
    calls = fs.call_count - before
    for number in range(1, calls + 1):
        for seed in range(10):
            fs = fresh(seed)
            write_atomically(fs, "/data/a", b"old")
            at = fs.call_count + number
            fs.hook = lambda call, *_, at=at: Crash() if call == at else None
            with pytest.raises(Crash):
                write_atomically(fs, "/data/a", b"new")
            fs.lose_power()
            assert fs.read_file("/data/a") in (b"old", b"new")


def test_nothing_works_after_a_crash() -> None:
    fs = fresh()
    file = fs.create("/data/a")
    fs.hook = lambda number, operation, path: Crash() if operation == "write_at" else None
    with pytest.raises(Crash):
        file.write_at(b"data", 0)
    with pytest.raises(Crash):
        fs.exists("/data/a")
    fs.kill()
    assert fs.exists("/data/a")


def test_a_full_disk_takes_a_part() -> None:
    fs = fresh()
    fs.capacity_bytes = 10
    file = fs.create("/data/a")
    file.write_at(b"123456", 0)
    with pytest.raises(StorageError) as caught:
        file.write_at(b"789abc", 6)
    assert caught.value.is_shortage
    assert fs.read_file("/data/a") == b"123456789a"
    file.truncate(6)
    file.write_at(b"ABCDEF", 0)
    assert fs.read_file("/data/a") == b"ABCDEF"


def test_the_hook_makes_a_call_fail() -> None:
    fs = fresh()
    fs.hook = lambda number, operation, path: OSError(errno.EIO, "broken") if operation == "sync" else None
    file = fs.create("/data/a")
    with pytest.raises(StorageError) as caught:
        file.sync()
    assert not caught.value.is_shortage
    assert fs.calls["sync", "a"] == 1


def test_a_lock_is_held_until_dropped_or_killed() -> None:
    fs = fresh()
    lock = fs.lock("/data/.lock")
    with pytest.raises(StorageError):
        fs.lock("/data/.lock")
    fs.kill()
    fs.lock("/data/.lock")
    assert lock is not None


def test_folders_rename_and_empty_before_they_go() -> None:
    fs = fresh()
    fs.make_directory("/data/t-0")
    fs.create("/data/t-0/a")
    fs.rename("/data/t-0", "/data/t-0-delete")
    assert not fs.exists("/data/t-0")
    with pytest.raises(StorageError):
        fs.remove_directory("/data/t-0-delete")
    fs.remove("/data/t-0-delete/a")
    fs.remove_directory("/data/t-0-delete")
    assert fs.list_directory("/data") == []
