"""What went wrong in crashes before it was mended; each was found by the crash tests in `tests/faults`."""

import errno
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from random import Random
from uuid import UUID

import pytest

from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.builder import BatchBuilder
from tailrace.records.record import read_batches
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import Crash, MemoryFileSystem
from tailrace.storage.retention import delete_files

CONFIG = LogConfig(segment_bytes=200, index_interval_bytes=50, retention_ms=-1)
SEEDS = range(60)


class StillClock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 1000


def fresh(seed: int = 0) -> MemoryFileSystem:
    fs = MemoryFileSystem(Random(seed))
    fs.make_directory("/data")
    fs.sync_directory("/")
    return fs


def open_dir(fs: MemoryFileSystem) -> LogDir:
    return LogDir.open(fs, "/data", StillClock(), lambda topic: CONFIG)


def make(fs: MemoryFileSystem) -> tuple[LogDir, Log]:
    log_dir = open_dir(fs)
    return log_dir, log_dir.create("t", 0, UUID(int=1), CONFIG)


def batch(producer_id: int = -1, sequence: int = -1) -> tuple[bytearray, BatchHeader]:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=min(producer_id, 0), base_sequence=sequence)
    builder.append(1000, None, b"v" * 60)
    data = bytearray(builder.build())
    return data, read_header(data)


def append(log: Log, count: int = 1, leader_epoch: int = 0) -> None:
    for _ in range(count):
        data, header = batch()
        log.append(data, header, leader_epoch)


def test_a_clean_mark_that_a_killed_start_removed_stays_removed() -> None:
    """It was removed but not synced, the next start found none and synced nothing. After a power
    loss it was back and vouched for the old end of a log that had been flushed further.
    """
    for seed in SEEDS:
        fs = fresh(seed)
        log_dir, log = make(fs)
        append(log)
        log_dir.close()
        fs.hook = lambda number, operation, path: Crash() if operation == "sync_directory" else None
        with pytest.raises(Crash):
            open_dir(fs)
        fs.kill()
        log = open_dir(fs).logs["t", 0]
        append(log)
        log.flush()
        fs.lose_power()
        log_dir = open_dir(fs)
        assert not log_dir.was_clean
        assert log_dir.logs["t", 0].log_end_offset == 2


def test_a_failed_sync_of_a_rebuilt_index_takes_the_folder_offline() -> None:
    """It was passed over like a full disk, while the folder's names it could not save were lost."""
    fs = fresh()
    log_dir, log = make(fs)
    append(log, 6)
    log_dir.close()
    for entry in fs.list_directory("/data/t-0"):
        if entry.name.endswith(".index"):
            fs.remove(f"/data/t-0/{entry.name}")
    log_dir = open_dir(fs)
    fs.hook = lambda number, operation, path: OSError(errno.EIO, "broken") if operation == "sync_directory" else None
    with pytest.raises(StorageError):
        log_dir.logs["t", 0].read(1, 1000, 6, min_one_batch=True)
    assert log_dir.is_offline


def test_a_power_loss_in_retention_leaves_no_hole() -> None:
    """Deletions survived in any order. Behind a hole everything was taken for a lost tail, flushed or
    not, and where the new segment's name was lost too the log began again at 0.
    """
    for seed in SEEDS:
        for size_bytes in (0, 150):
            fs = fresh(seed)
            _, log = make(fs)
            append(log, 9)
            log.flush()
            log.reconfigure(LogConfig(segment_bytes=200, retention_ms=-1, retention_bytes=size_bytes))
            at = fs.call_count + 1 + seed % 30
            fs.hook = lambda number, operation, path, at=at: Crash() if number == at else None
            with suppress(Crash):
                log.apply_retention(1000)
                delete_files(log)
            fs.lose_power()
            log = open_dir(fs).logs["t", 0]
            assert log.log_end_offset == 9


@pytest.mark.parametrize("operations", [("rename",), ("rename", "remove")])
def test_a_segment_that_cannot_be_deleted_does_not_bring_its_records_back(operations: tuple[str, ...]) -> None:
    """It was forgotten with its file in place, which the next start took for the beginning of the log."""
    fs = fresh()
    log_dir, log = make(fs)
    append(log, 9)
    leaving = log.segments[:-1]
    log.advance_log_start(8)
    fs.hook = lambda number, operation, path: OSError(errno.ENOSPC, "full") if operation in operations else None
    assert log.apply_retention(1000) == len(leaving)
    if "remove" in operations:
        with pytest.raises(StorageError):
            delete_files(log)
        assert not log_dir.is_offline
        assert not any(segment.is_gone for segment in leaving), "a start may find them, so they are to be flushed"
    else:
        delete_files(log)
        assert [entry.name for entry in fs.list_directory("/data/t-0") if entry.name.endswith(".deleted")] == []
    fs.hook = None
    log_dir.checkpoint()
    fs.kill()
    log = open_dir(fs).logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (8, 9)
    assert len(log.segments) == (1 if operations == ("rename",) else len(leaving) + 1)


def test_a_cut_below_the_start_of_the_log_lowers_the_start_on_the_disk() -> None:
    """The checkpoint kept the higher start. After a crash the log ended before it and was thrown away."""
    fs = fresh()
    log_dir, log = make(fs)
    append(log, 9)
    log.advance_log_start(8)
    log_dir.checkpoint()
    log.truncate_to(5)
    append(log, 2)
    fs.kill()
    log = open_dir(fs).logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)


def test_a_log_that_begins_again_knows_nothing_of_its_old_producers() -> None:
    """A snapshot at the very offset where it began again was loaded by the next start."""
    fs = fresh()
    _, log = make(fs)
    data, header = batch(7, 0)
    log.append(data, header, 0)
    log.roll()
    append(log)
    log.truncate_fully(1)
    assert not log.producers.entries
    fs.kill()
    assert not open_dir(fs).logs["t", 0].producers.entries


def test_the_first_segment_of_a_log_that_was_killed_as_it_began_again_is_on_the_disk() -> None:
    """Its name was not, and nothing synced it. A power loss took the segment and left the next, with which
    the log then began.
    """
    for seed in SEEDS:
        fs = fresh(seed)
        _, log = make(fs)
        append(log, 4)
        fs.hook = lambda number, operation, path: Crash() if operation == "create" and path.endswith(".tmp") else None
        with pytest.raises(Crash):
            log.truncate_fully(6)
        fs.kill()
        log = open_dir(fs).logs["t", 0]
        append(log, 9)
        assert len(log.segments) > 2
        fs.lose_power()
        assert open_dir(fs).logs["t", 0].log_start_offset == 6


def test_epochs_before_a_start_that_was_not_written_down_are_found_again() -> None:
    """The epoch file was written for a start of the log that a crash undid, and knew nothing of the
    epochs before it; a follower would have been told a wrong end of them.
    """
    fs = fresh()
    _, log = make(fs)
    for leader_epoch in range(4):
        append(log, 2, leader_epoch)
    log.advance_log_start(5)
    append(log, 1, leader_epoch=4)
    fs.kill()
    log = open_dir(fs).logs["t", 0]
    assert log.log_start_offset == 0
    assert log.epochs.starts == ((0, 0), (1, 2), (2, 4), (3, 6), (4, 8))


def test_a_crash_in_a_cut_below_the_start_leaves_the_epochs_of_what_stays() -> None:
    """The epoch file knew only of epochs from the start of the log on, which was being cut away. So all
    of them were dropped, and the records that stayed had none.
    """
    fs = fresh()
    _, log = make(fs)
    append(log, 9, leader_epoch=3)
    log.advance_log_start(7)
    append(log, 1, leader_epoch=4)
    fs.hook = lambda number, operation, path: Crash() if operation == "truncate" else None
    with pytest.raises(Crash):
        log.truncate_to(5)
    fs.kill()
    log = open_dir(fs).logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (5, 6)
    assert log.epochs.starts == ((3, 5),)


def test_a_compacted_log_that_is_cut_in_a_gap_ends_where_its_last_batch_does() -> None:
    """It ended in the gap until the next start, which found it shorter than its recovery point on the disk."""
    fs = fresh()
    log_dir, log = make(fs)
    config = replace(CONFIG, segment_bytes=1000, cleanup_policy_compact=True)
    log.reconfigure(config)
    for base_offset in (0, 5, 9):
        log.log_end_offset = base_offset  # as if compaction had taken away what was in between
        append(log)
    log.flush()
    log_dir.checkpoint()
    log.truncate_to(8)
    assert log.log_end_offset == 6
    assert log.recovery_point == 6
    log.truncate_to(4)
    assert log.log_end_offset == 1
    fs.kill()
    assert LogDir.open(fs, "/data", StillClock(), lambda topic: config).logs["t", 0].log_end_offset == 1


def test_the_rest_of_a_failed_append_does_not_come_back_in_a_flushed_segment() -> None:
    """The cut after a write that failed was never synced if all batches were. A power loss undid it after a roll.

    The sealed segment counted as flushed, so recovery did not scan it, and it kept bytes that are no batch at its end.
    """
    for seed in SEEDS:
        fs = fresh(seed)
        log_dir = open_dir(fs)
        log = log_dir.create("t", 0, UUID(int=1), replace(CONFIG, segment_bytes=1000))
        append(log)
        log.flush()
        fs.hook = lambda number, operation, path: OSError(errno.ENOSPC, "full") if operation == "write_at" else None
        with pytest.raises(StorageError):
            append(log)
        fs.hook = None
        log.roll()
        append(log)
        log.flush()
        log_dir.checkpoint()
        fs.lose_power()
        log = open_dir(fs).logs["t", 0]
        assert log.log_end_offset == 2
        first = log.segments[0]
        data = fs.read_file(first.path(".log")) or b""
        assert len(data) == first.size_bytes == read_header(data).size_bytes


def test_epochs_of_records_that_a_power_loss_took_are_forgotten() -> None:
    """A kill left a truncation unsynced. A power loss after the next epoch had begun brought the cut records back.

    They stood under the new epoch then, so a leader that has others in their place would not have had them removed.
    """
    returned_count = 0
    for seed in SEEDS:
        fs = fresh(seed)
        log_dir, log = make(fs)
        append(log, 2)
        log.flush()
        log_dir.checkpoint()
        fs.hook = lambda number, operation, path: Crash() if operation == "sync" else None
        with suppress(Crash):
            log.truncate_to(1)
        fs.hook = None
        fs.kill()
        log = open_dir(fs).logs["t", 0]
        append(log, 1, leader_epoch=1)
        fs.lose_power()
        log = open_dir(fs).logs["t", 0]
        epochs = [log.epochs.epoch_for(offset) for offset in range(log.log_end_offset)]
        stored = [
            header.partition_leader_epoch
            for segment in log.segments
            for _, header in read_batches(fs.read_file(segment.path(".log")) or b"")
        ]
        assert epochs == stored, seed
        returned_count += stored == [0, 0]
    assert returned_count > 0


def test_no_segment_reaches_into_the_next_after_a_power_loss_undid_a_truncation() -> None:
    """A kill left a truncation inside a compacted part unsynced. The next start put a segment behind it.

    A power loss then brought the cut records back, so their offsets stood in two segments.
    """
    config = replace(CONFIG, segment_bytes=1000, cleanup_policy_compact=True)
    for seed in SEEDS:
        fs = fresh(seed)
        log_dir = open_dir(fs)
        log = log_dir.create("t", 0, UUID(int=1), config)
        append(log)
        log.log_end_offset = 5  # as if compaction had taken away what was in between
        append(log, 2)
        log.flush()
        log_dir.checkpoint()
        fs.hook = lambda number, operation, path: Crash() if operation == "sync" else None
        with suppress(Crash):
            log.truncate_to(6)
        fs.hook = None
        fs.kill()
        LogDir.open(fs, "/data", StillClock(), lambda topic: config)
        fs.lose_power()
        segments = LogDir.open(fs, "/data", StillClock(), lambda topic: config).logs["t", 0].segments
        for segment, following in pairwise(segments):
            stored = read_batches(fs.read_file(segment.path(".log")) or b"")
            assert all(header.last_offset < following.base_offset for _, header in stored), seed


def test_truncation_removes_an_epoch_without_records() -> None:
    """A leader whose disk was full had noted its epoch, but could append nothing. As a follower it then asked its new
    leader about this epoch again and again, and never came into sync."""
    fs = fresh()
    log_dir, log = make(fs)
    append(log)
    fs.hook = lambda _, operation, path: (
        OSError(errno.ENOSPC, "full") if operation == "write_at" and path.endswith(".log") else None
    )
    with pytest.raises(StorageError):
        append(log, leader_epoch=7)
    fs.hook = None
    assert [tuple(start) for start in log.epochs.starts] == [(0, 0), (7, 1)]
    log.truncate_to(1)
    assert [tuple(start) for start in log.epochs.starts] == [(0, 0)]
    log_dir.close()
