"""A full disk refuses appends, loses nothing, and is forgiven when there is room again."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tests.now import now
from tests.own_process import in_own_process

from tailrace.base.clock import SystemClock
from tailrace.records.batch import read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.record import read_batches, read_records
from tailrace.storage.error import StorageError
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import MemoryFileSystem

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def append(log: Log, value: bytes) -> int:
    builder = BatchBuilder()
    builder.append(1000, None, value)
    data = bytearray(builder.build())
    return log.append(data, read_header(data), 0)


def values(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)
        for position, header in read_batches(data):
            found += [record.value for record in read_records(data, position)]
            offset = header.next_offset
    return found


def fill(log: Log, written: list[bytes]) -> StorageError:
    """Append until the disk refuses, and note what it took."""
    for number in range(1000):
        try:
            append(log, b"%d" % number * 50)
        except StorageError as error:
            return error
        written.append(b"%d" % number * 50)
    raise AssertionError("the disk took everything")


def memory_dir() -> tuple[MemoryFileSystem, LogDir, Log]:
    fs = MemoryFileSystem()
    fs.make_directory("/data")
    log_dir = LogDir.open(fs, "/data", SystemClock(), lambda topic: CONFIG)
    return fs, log_dir, log_dir.create("t", 0, UUID(int=1), CONFIG)


def test_at_every_fill_level_appends_fail_cleanly_and_go_on_later() -> None:
    """The disk fills up at every byte of a batch, of an index file and of a snapshot."""
    for room_bytes in range(0, 2500, 23):
        fs, log_dir, log = memory_dir()
        written = [b"%d" % number * 10 for number in range(18)]
        for value in written:
            append(log, value)
        fs.capacity_bytes = fs.used_bytes() + room_bytes
        error = fill(log, written)
        assert error.cause.errno == errno.ENOSPC
        assert not log_dir.is_offline
        assert values(log) == written
        # Nothing of the refused batch takes up the last of the room.
        active = fs.read_file(f"/data/t-0/{log.segments[-1].base_offset:020d}.log")
        assert active is not None
        assert len(active) == log.segments[-1].size_bytes
        with pytest.raises(StorageError):
            append(log, b"still full" * 100)
        fs.capacity_bytes = None
        assert append(log, b"room again") == len(written)
        assert values(log) == [*written, b"room again"]
        log_dir.close()
        log_dir = LogDir.open(fs, "/data", SystemClock(), lambda topic: CONFIG)
        assert values(log_dir.logs["t", 0]) == [*written, b"room again"]


def test_a_tail_that_cannot_be_cut_away_is_cut_before_the_next_append() -> None:
    fs, log_dir, log = memory_dir()
    append(log, b"good")
    fs.hook = lambda number, operation, path: (
        OSError(errno.ENOSPC, "full") if operation in ("write_at", "truncate") else None
    )
    with pytest.raises(StorageError):
        append(log, b"torn" * 50)
    fs.hook = None
    assert now(log.segments[-1].is_torn)
    assert values(log) == [b"good"]
    append(log, b"x")
    assert not log.segments[-1].is_torn
    log_dir.close()
    log_dir = LogDir.open(fs, "/data", SystemClock(), lambda topic: CONFIG)
    assert values(log_dir.logs["t", 0]) == [b"good", b"x"]


def test_a_torn_tail_is_gone_after_a_clean_stop() -> None:
    fs, log_dir, log = memory_dir()
    append(log, b"good")
    fs.hook = lambda number, operation, path: (
        OSError(errno.ENOSPC, "full") if operation in ("write_at", "truncate") else None
    )
    for _ in range(5):
        with pytest.raises(StorageError):
            append(log, b"torn" * 50)
    fs.hook = None
    log_dir.close()
    log_dir = LogDir.open(fs, "/data", SystemClock(), lambda topic: CONFIG)
    log = log_dir.logs["t", 0]
    assert values(log) == [b"good"]
    append(log, b"next")
    assert values(log) == [b"good", b"next"]


def test_a_full_disk_at_the_stop_is_no_clean_stop() -> None:
    fs, log_dir, log = memory_dir()
    append(log, b"good")
    fs.capacity_bytes = fs.used_bytes()
    with pytest.raises(StorageError):
        log_dir.close()
    fs.capacity_bytes = None
    log_dir = LogDir.open(fs, "/data", SystemClock(), lambda topic: CONFIG)
    assert not log_dir.was_clean
    assert values(log_dir.logs["t", 0]) == [b"good"]


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Let the kernel refuse larger files, as a full disk does: a part of the write first, then an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_real_disk_that_takes_no_more(tmp_path: Path) -> None:
    in_own_process(_fill_a_real_disk, tmp_path)


def _fill_a_real_disk(tmp_path: Path) -> None:
    log_dir = LogDir.open(RealFileSystem(), str(tmp_path / "data"), SystemClock())
    log = log_dir.create("t", 0, UUID(int=1), LogConfig())
    written: list[bytes] = []
    with file_size_limit(10_000):
        fill(log, written)
        size_bytes = (tmp_path / "data" / "t-0" / "00000000000000000000.log").stat().st_size
    assert len(written) > 10
    assert size_bytes == log.size_bytes
    assert values(log) == written
    append(log, b"room again")
    log_dir.close()
    log_dir = LogDir.open(RealFileSystem(), str(tmp_path / "data"), SystemClock())
    assert values(log_dir.logs["t", 0]) == [*written, b"room again"]
    log_dir.close()
