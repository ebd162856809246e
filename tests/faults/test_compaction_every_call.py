"""Crash or fail at the first file-system call of a compaction, the second, the third … until it passes untouched.

Whatever happens, each segment is afterwards the old or the new one: every record that is found
is one that was written there, the newest of each key is among them, and the next compaction
leaves exactly those.
"""

import errno
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest
from tests.unit.storage.compacting import append, compact, contents, dirt_of, end_transaction

from tailrace.records.control import ControlType
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import Crash, MemoryFileSystem

CONFIG = LogConfig(
    segment_bytes=420, index_interval_bytes=100, retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=0
)
COUNT = 16
KEYS = 3

Found = list[tuple[int, bytes | None, bytes | None]]


class StillClock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 1000


def written() -> Found:
    return [(number, b"key %d" % (number % KEYS), b"value %d" % number) for number in range(COUNT)]


def open_dir(fs: MemoryFileSystem) -> LogDir:
    return LogDir.open(fs, "/data", StillClock(), lambda _: CONFIG)


def prepare(seed: int) -> tuple[MemoryFileSystem, LogDir, Log]:
    """A log with several segments, of which the older are merged already, all of it flushed."""
    fs = MemoryFileSystem(Random(seed))
    fs.make_directory("/data")
    fs.sync_directory("/")
    log_dir = open_dir(fs)
    log = log_dir.create("t", 0, UUID(int=9), CONFIG)
    for number, key, value in written():
        if number == COUNT // 2:
            log.roll()
            compact(log)
            log_dir.checkpoint_cleaner()
        append(log, (key, value), producer=(4, 0, number))
    log.roll()
    append(log, (b"aborted", b"aborted"), producer=(5, 0, 0), is_transactional=True)
    end_transaction(log, 5, ControlType.ABORT)
    log.roll()
    log.flush()
    fs.call_count = 0
    return fs, log_dir, log


def run(log_dir: LogDir, log: Log) -> None:
    log.flush()
    if dirt_of(log).dirty_bytes:
        compact(log)
    log_dir.checkpoint_cleaner()


def call_count() -> int:
    fs, log_dir, log = prepare(0)
    contents(log)
    fs.call_count = 0
    run(log_dir, log)
    count = fs.call_count
    assert contents(log) == written()[-KEYS:]
    return count


def check(fs: MemoryFileSystem, before: Found) -> None:
    log_dir = open_dir(fs)
    log = log_dir.logs["t", 0]
    found = contents(log)
    assert set(found) <= set(before)
    assert set(written()[-KEYS:]) <= set(found)
    assert [offset for offset, *_ in found] == sorted({offset for offset, *_ in found})
    assert (log.log_start_offset, log.log_end_offset) == (0, COUNT + 2)
    assert log.producers.entries[4].last_sequence == COUNT - 1
    assert not [entry.name for entry in fs.list_directory(log.directory) if entry.name.endswith(("cleaned", "swap"))]
    if log.cleaner_offset == COUNT + 2:
        assert found == written()[-KEYS:]
    run(log_dir, log)
    assert contents(log) == written()[-KEYS:]
    log_dir.close()
    again = open_dir(fs)
    assert again.was_clean
    assert contents(again.logs["t", 0]) == written()[-KEYS:]


def crash_at(seed: int, number: int) -> tuple[MemoryFileSystem, Found]:
    fs, log_dir, log = prepare(seed)
    before = contents(log)
    fs.call_count = 0
    fs.hook = lambda call, *_: Crash() if call == number else None
    with pytest.raises(Crash):
        run(log_dir, log)
    return fs, before


def test_the_compaction_takes_every_step() -> None:
    fs, log_dir, log = prepare(0)
    run(log_dir, log)
    names = {name for operation, name in fs.calls if operation == "rename"}
    assert {name[20:] for name in names} >= {".log.cleaned", ".log.swap", ".index.swap", ".timeindex.swap"}
    assert len({name for name in names if name.endswith(".log.swap")}) >= 2


@pytest.mark.parametrize("ending", ["kill", "lose_power"])
def test_a_crash_at_any_call_leaves_old_or_new_segments(ending: str) -> None:
    for number in range(1, call_count() + 1):
        fs, before = crash_at(number, number)
        getattr(fs, ending)()
        check(fs, before)


def test_a_crash_while_the_start_puts_it_right_leaves_them_too() -> None:
    for number in range(1, call_count() + 1, 9):
        for second in range(1, 40, 4):
            fs, before = crash_at(number * 100 + second, number)
            fs.lose_power()
            fs.hook = lambda call, *_, second=second: Crash() if call == second else None
            with suppress(Crash):
                open_dir(fs)
            fs.lose_power()
            check(fs, before)


@pytest.mark.parametrize(("code", "ending"), [(errno.EIO, "lose_power"), (errno.ENOSPC, "kill")])
def test_an_error_at_any_call_leaves_old_or_new_segments(code: int, ending: str) -> None:
    for number in range(1, call_count() + 1):
        fs, log_dir, log = prepare(number)
        before = contents(log)
        fs.call_count = 0
        fs.hook = lambda call, *_, number=number: OSError(code, "injected") if call == number else None
        with suppress(StorageError):
            run(log_dir, log)
        fs.hook = None
        if not log_dir.is_offline:
            assert set(written()[-KEYS:]) <= set(contents(log)) <= set(before)
        getattr(fs, ending)()
        check(fs, before)
