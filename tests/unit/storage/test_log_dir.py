"""A folder of logs: creating, deleting, loading, checkpoints and the clean mark."""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import pytest
from tests.unit.storage.open_file import open_files
from tests.unit.storage.workbench import Workbench

from tailrace.base.clock import SystemClock
from tailrace.base.invariant import InvariantError
from tailrace.storage.checkpoint import CleanStop
from tailrace.storage.error import StorageError
from tailrace.storage.fs import RealFileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir, parse_partition_name
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.retention import delete_files, durable_start_offset

TOPIC_ID = UUID(int=5)
SMALL = LogConfig(segment_bytes=400)
OpenDir: TypeAlias = Callable[[], LogDir]


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


@pytest.fixture
def open_dir(fs: MemoryFileSystem, bench: Workbench) -> OpenDir:
    return lambda: LogDir.open(fs, "/data", bench.clock, lambda topic: SMALL, new_id=lambda: "cafe")


def test_a_partition_has_its_folder_and_topic_id(fs: MemoryFileSystem, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    log = log_dir.create("my.topic-x", 3, TOPIC_ID, SMALL)
    assert log.directory == "/data/my.topic-x-3"
    assert fs.exists("/data/my.topic-x-3/00000000000000000000.log")
    assert fs.exists("/data/my.topic-x-3/partition.metadata")
    log_dir.close()
    reopened = open_dir()
    assert list(reopened.logs) == [("my.topic-x", 3)]
    assert reopened.topic_ids == {("my.topic-x", 3): TOPIC_ID}
    assert reopened.logs["my.topic-x", 3].config is SMALL


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("topic-0", ("topic", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("topic", None),
        ("topic-", None),
        ("-5", None),
        ("topic-01", None),
        ("topic--1", ("topic-", 1)),
        ("..-1", None),
        (".-1", None),
        ("tøpic-1", None),
        ("a b-1", None),
        ("x" * 249 + "-1", ("x" * 249, 1)),
        ("x" * 250 + "-1", None),
        ("topic-0.cafe-delete", None),
    ],
)
def test_names_of_partition_folders(name: str, key: tuple[str, int] | None) -> None:
    assert parse_partition_name(name) == key


def test_names_that_are_no_topics_never_become_paths(open_dir: OpenDir) -> None:
    log_dir = open_dir()
    for topic in ("", ".", "..", "a/b", "../x", "a\0b", "x" * 250):
        with pytest.raises(InvariantError):
            log_dir.create(topic, 0, TOPIC_ID, SMALL)


def test_a_partition_that_was_half_made_is_made_again(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    log_dir.create("t", 0, TOPIC_ID, SMALL)
    fs.remove("/data/t-0/partition.metadata")
    fs.kill()
    log_dir = open_dir()
    assert log_dir.logs == {}
    bench.append(log_dir.create("t", 0, TOPIC_ID, SMALL), b"v")
    assert log_dir.purge() == 0
    fs.remove("/data/t-0/partition.metadata")
    fs.kill()
    log_dir = open_dir()
    assert log_dir.logs["t", 0].log_end_offset == 1
    assert log_dir.topic_ids == {}


def test_a_partition_is_created_once(open_dir: OpenDir) -> None:
    log_dir = open_dir()
    log_dir.create("t", 0, TOPIC_ID, SMALL)
    with pytest.raises(InvariantError):
        log_dir.create("t", 0, TOPIC_ID, SMALL)


def test_other_folders_and_files_are_left_alone(fs: MemoryFileSystem, open_dir: OpenDir) -> None:
    fs.make_directory("/data/lost+found")
    fs.write_file("/data/notes.txt", b"")
    log_dir = open_dir()
    assert log_dir.logs == {}
    log_dir.close()
    assert fs.exists("/data/lost+found")
    assert fs.exists("/data/notes.txt")


def test_a_clean_stop_is_marked_once_and_reads_nothing_at_the_next_start(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    assert not log_dir.was_clean
    for partition in range(3):
        log = log_dir.create("t", partition, TOPIC_ID, SMALL)
        for _ in range(20):
            bench.append(log, b"v")
    log_dir.close(stop=CleanStop(3))
    assert fs.exists("/data/.kafka_cleanshutdown")
    fs.kill()
    reopened = open_dir()
    assert reopened.was_clean
    assert not [name for operation, name in fs.calls if operation == "read_at" and name.endswith(".log")]
    assert not fs.exists("/data/.kafka_cleanshutdown")
    assert [log.log_end_offset for log in reopened.logs.values()] == [20, 20, 20]
    fs.kill()
    assert not open_dir().was_clean


def test_an_unclean_stop_is_not_marked(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    bench.append(log, b"v")
    log_dir.close(clean=False)
    reopened = open_dir()
    assert not reopened.was_clean
    assert reopened.logs["t", 0].log_end_offset == 1


def test_a_failed_close_is_not_marked(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    for partition in range(2):
        bench.append(log_dir.create("t", partition, TOPIC_ID, SMALL), b"v")
    fs.hook = lambda number, operation, path: OSError(errno.EIO, "no") if operation == "sync" else None
    with pytest.raises(StorageError):
        log_dir.close()
    fs.hook = None
    assert log_dir.is_offline
    assert log_dir.failure is not None
    assert not fs.exists("/data/.kafka_cleanshutdown")
    assert [log.log_end_offset for log in open_dir().logs.values()] == [1, 1]


def test_recovery_points_and_log_starts_are_checkpointed(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    first = log_dir.create("t", 0, TOPIC_ID, SMALL)
    second = log_dir.create("t", 1, TOPIC_ID, SMALL)
    for log in (first, second):
        for _ in range(3):
            bench.append(log, b"v")
    first.flush()
    second.advance_log_start(2)
    log_dir.checkpoint()
    assert fs.read_file("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 0\n"
    assert fs.read_file("/data/log-start-offset-checkpoint") == b"0\n1\nt 1 2\n"
    fs.kill()
    reopened = open_dir()
    assert reopened.logs["t", 0].recovery_point == 2
    assert reopened.logs["t", 1].log_start_offset == 2


def test_a_log_start_is_durable_once_it_is_checkpointed_or_the_files_below_are_gone(
    bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for _ in range(3):
        bench.append(log, b"v")
    log.advance_log_start(1)
    assert durable_start_offset(log) == 0
    log_dir.checkpoint_starts()
    assert durable_start_offset(log) == 1
    log.roll()
    log.advance_log_start(3)
    assert log.apply_retention(0) > 0
    assert durable_start_offset(log) == 1
    delete_files(log)
    assert durable_start_offset(log) == 3
    log.truncate_fully(2)
    assert durable_start_offset(log) == 2


def test_a_partition_that_is_made_again_inherits_nothing_from_the_checkpoints(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    """A follower writes log starts alone. The folder took the other checkpoints for written as well, so the offsets of
    the deleted partition counted for the next one after a crash."""
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    bench.append(log, b"v")
    log.flush()
    log_dir.checkpoint()
    log_dir.write_high_watermarks({("t", 0): 1})
    log_dir.delete("t", 0)
    log_dir.checkpoint_starts()
    log_dir.create("t", 0, TOPIC_ID, SMALL)
    assert fs.read_file("/data/recovery-point-offset-checkpoint") == b"0\n0\n"
    assert log_dir.read_high_watermarks() == {}


def test_truncation_lowers_the_recovery_point_on_the_disk_too(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for _ in range(20):
        bench.append(log, b"v")
    log.flush()
    log_dir.checkpoint()
    log.truncate_to(5)
    assert fs.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 5\n"


def test_unreadable_checkpoints_mean_that_everything_is_scanned(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for _ in range(20):
        bench.append(log, b"v")
    log_dir.close()
    fs.write_file("/data/recovery-point-offset-checkpoint", b"garbage")
    fs.write_file("/data/log-start-offset-checkpoint", b"garbage")
    assert open_dir().logs["t", 0].log_end_offset == 20


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    bench.append(log, b"v")
    found = log.locate(0, 1000, 1, min_one_batch=True)
    log_dir.delete("t", 0)
    assert log_dir.logs == {}
    assert log_dir.topic_ids == {}
    assert [entry.name for entry in fs.list_directory("/data") if entry.is_directory] == ["t-0.cafe-delete"]
    with pytest.raises(InvariantError):
        bench.append(log, b"v")
    assert len(found.read()) > 0
    assert log_dir.purge() == 1
    assert log_dir.purge() == 0
    assert not [entry for entry in fs.list_directory("/data") if entry.is_directory]
    assert len(found.read()) > 0


def test_what_a_crash_left_deleted_is_purged_later(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    bench.append(log_dir.create("t", 0, TOPIC_ID, SMALL), b"v")
    log_dir.delete("t", 0)
    fs.kill()
    reopened = open_dir()
    assert reopened.logs == {}
    assert reopened.purge() == 1


def test_a_long_topic_name_is_shortened_for_deletion(fs: MemoryFileSystem, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    topic = "x" * 249
    log_dir.create(topic, 0, TOPIC_ID, SMALL)
    log_dir._new_id = lambda: "0123456789abcdef" * 2
    log_dir.delete(topic, 0)
    (name,) = [entry.name for entry in fs.list_directory("/data") if entry.is_directory]
    assert len(name) == 255
    assert name.endswith("-0.0123456789abcdef0123456789abcdef-delete")


def test_a_new_partition_does_not_inherit_the_offsets_of_an_old_one(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir
) -> None:
    """The log start of a deleted partition stayed in the checkpoint.

    A new partition of the same name was then loaded as if it had lost its beginning, and emptied.
    """
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for _ in range(20):
        bench.append(log, b"v")
    log.advance_log_start(15)
    log_dir.checkpoint()
    log_dir.delete("t", 0)
    fs.kill()
    log_dir = open_dir()
    bench.append(log_dir.create("t", 0, TOPIC_ID, SMALL), b"new")
    fs.kill()
    reopened = open_dir()
    assert bench.values(reopened.logs["t", 0]) == [(0, b"new")]


@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_new_partition_does_not_inherit_the_high_watermark_of_an_old_one(
    fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir, is_checkpointed: bool, is_restarted: bool
) -> None:
    """After a kill the records of the new partition counted as replicated, as far as the old high watermark went."""
    log_dir = open_dir()
    log_dir.create("t", 0, TOPIC_ID, SMALL)
    log_dir.create("u", 0, TOPIC_ID, SMALL)
    log_dir.write_high_watermarks({("t", 0): 9, ("u", 0): 7})
    log_dir.delete("t", 0)
    if is_restarted:
        fs.kill()
        log_dir = open_dir()
    if is_checkpointed:
        log_dir.checkpoint()
    log_dir.create("t", 0, TOPIC_ID, SMALL)
    fs.kill()
    assert open_dir().read_high_watermarks() == {("u", 0): 7}


def test_one_process_has_the_folder(fs: MemoryFileSystem, open_dir: OpenDir) -> None:
    first = open_dir()
    with pytest.raises(StorageError):
        open_dir()
    first.close()
    open_dir()


def test_an_offline_folder_makes_nothing_new(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    fs.hook = lambda number, operation, path: OSError(errno.EIO, "no") if operation == "write_at" else None
    with pytest.raises(StorageError):
        bench.append(log, b"v")
    fs.hook = None
    with pytest.raises(StorageError):
        log_dir.create("t", 1, TOPIC_ID, SMALL)
    with pytest.raises(StorageError):
        log_dir.checkpoint()
    with pytest.raises(StorageError):
        log_dir.close()
    assert not fs.exists("/data/.kafka_cleanshutdown")


def test_on_a_real_disk(tmp_path: Path, bench: Workbench) -> None:
    path = str(tmp_path / "new" / "data")
    log_dir = LogDir.open(RealFileSystem(), path, SystemClock(), lambda topic: SMALL)
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for number in range(50):
        bench.append(log, b"%d" % number, timestamps=(1000 + number,))
    values = bench.values(log)
    log_dir.close()
    for clean in (True, False, True):
        log_dir = LogDir.open(RealFileSystem(), path, SystemClock(), lambda topic: SMALL)
        log = log_dir.logs["t", 0]
        assert bench.values(log) == values
        assert log.offset_for_timestamp(1030) == (1030, 30, 0)
        found = log.locate(3, 1 << 20, log.log_end_offset, min_one_batch=True)
        cached = found.read_cached()
        assert cached is None or bytes(cached) == found.read()
        log_dir.close(clean=clean)


def test_closing_closes_the_files_at_once(tmp_path: Path, bench: Workbench) -> None:
    log_dir = LogDir.open(RealFileSystem(), str(tmp_path / "data"), SystemClock(), lambda topic: SMALL)
    for partition in range(10):
        log = log_dir.create("t", partition, TOPIC_ID, SMALL)
        for _ in range(20):
            bench.append(log, b"v")
    assert len(open_files(tmp_path)) > 10
    log_dir.close()
    assert open_files(tmp_path) == []


def test_reading_a_deleted_partition_blames_no_disk(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    log = log_dir.create("t", 0, TOPIC_ID, SMALL)
    for _ in range(20):
        bench.append(log, b"v")
    log_dir.delete("t", 0)
    log_dir.purge()
    assert len(bench.values(log)) == 20
    for segment in log.segments:
        segment.forget()
    with pytest.raises(StorageError):
        log.read(0, 1000, 20, min_one_batch=True)
    assert not log_dir.is_offline


def test_many_partitions_are_made_together(fs: MemoryFileSystem, bench: Workbench, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    with ThreadPoolExecutor(4) as pool:
        made = log_dir.create_all("t", range(20), TOPIC_ID, SMALL, pool.map)
    assert list(made) == list(range(20))
    assert fs.calls["sync_directory", "data"] < 20
    bench.append(made[7], b"v")
    made[7].flush()
    fs.lose_power()
    again = open_dir()
    assert set(again.logs) == {("t", index) for index in range(20)}
    assert set(again.topic_ids.values()) == {TOPIC_ID}
    assert bench.values(again.logs["t", 7]) == [(0, b"v")]


def test_partitions_that_cannot_be_made_are_missing(fs: MemoryFileSystem, open_dir: OpenDir) -> None:
    log_dir = open_dir()
    fs.hook = lambda _, operation, path: OSError(errno.ENOSPC, "full") if "t-3" in path else None
    assert list(log_dir.create_all("t", range(5), TOPIC_ID, SMALL)) == [0, 1, 2, 4]
    fs.hook = None
    assert ("t", 3) not in log_dir.logs
    assert log_dir.create("t", 3, TOPIC_ID, SMALL).log_end_offset == 0
