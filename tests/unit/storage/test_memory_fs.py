"""The file system in memory loses exactly what a real one may lose."""

import errno
from random import Random

import pytest

from runnel.storage.error import StorageError
from runnel.storage.fs import write_atomically
from runnel.storage.memory_fs import Crash, MemoryFileSystem

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


def test_power_loss_keeps_what_was_synced_and_a_beginning_of_the_rest() -> None:
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
        stripped = data.rstrip(b"\0")
        assert data.startswith(b"synced")
        assert b"synced one two".startswith(stripped)
        outcomes.add(data)
    assert {b"synced", b"synced one"} <= outcomes
    assert any(b"\0" in data for data in outcomes)


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
