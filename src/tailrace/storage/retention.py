"""Retention: the choice of old segments to delete, by age, by size and by log start offset.

Segments are removed in memory, on the log's thread. `delete_files` must follow and may run on
another thread; `deletion` describes what happens to the files.
"""

from typing import Protocol

from tailrace.base.invariant import invariant
from tailrace.storage.folder import Folder
from tailrace.storage.log_config import LogConfig
from tailrace.storage.producer_snapshot import remove_snapshots
from tailrace.storage.segment.segment import Segment
from tailrace.storage.segment.swap import SegmentSwaps


class RetainedLog(Protocol):
    """The part of `Log` that retention uses."""

    config: LogConfig
    directory: str
    log_start_offset: int
    checkpointed_start_offset: int
    log_end_offset: int
    segments: list[Segment]
    swaps: SegmentSwaps

    @property
    def folder(self) -> Folder: ...

    @property
    def size_bytes(self) -> int: ...

    def roll(self) -> Segment: ...

    def advance_log_start(self, offset: int) -> None: ...


def apply_retention(log: RetainedLog, now_ms: int, up_to_offset: int) -> int:
    """Delete the oldest segments that no rule keeps and that end at or below `up_to_offset`. Return how many.

    Each rule goes through the segments in order and stops at the first that it keeps, as in Kafka: an
    old segment after a newer one is kept.
    """
    count = _count_below_start(log)
    if log.config.cleanup_policy_delete:
        count = max(count, _count_oversize(log), _count_expired(log, now_ms))
    count = min(count, _count_below(log, up_to_offset))
    if count == len(log.segments) and log.segments[-1].size_bytes == 0:
        count -= 1
    delete_segments(log, count)
    return count


def delete_segments(log: RetainedLog, count: int) -> None:
    """Remove the `count` oldest segments, and advance the log start offset to the next one."""
    if count == 0:
        return
    log.swaps.finish()
    if count == len(log.segments):
        log.roll()
    invariant(count < len(log.segments), "the last segment is not deleted")
    log.advance_log_start(max(log.log_start_offset, log.segments[count].base_offset))
    # In this order, because a checkpoint written in between must not treat the files as gone.
    log.folder.deletions.begin(log.directory, log.segments[:count], log.config.file_delete_delay_ms)
    log.segments = log.segments[count:]


def delete_files(log: RetainedLog) -> None:
    """Rename the files of removed segments. May run on any thread. The files are removed later."""
    if not log.folder.deletions.is_leaving(log.directory):
        return
    with log.folder.judging():
        log.folder.deletions.move(log.directory)
        remove_snapshots(log.folder.fs, log.directory, below=first_file_offset(log))


def first_file_offset(log: RetainedLog) -> int:
    """Return the base offset of the first segment whose files still have their names."""
    # In this order: on another thread, segments may be removed, and begin to leave, between the two.
    segments, deletions = log.segments, log.folder.deletions
    leaving = deletions.leaving(log.directory) if deletions.is_leaving(log.directory) else None
    return (leaving or segments)[0].base_offset


def durable_start_offset(log: RetainedLog) -> int:
    """Return the log start offset after a crash: the one in the checkpoint or, if that is higher, of the first file."""
    if log.checkpointed_start_offset >= log.log_start_offset:
        return log.log_start_offset
    return min(log.log_start_offset, max(log.checkpointed_start_offset, first_file_offset(log)))


def _count_below_start(log: RetainedLog) -> int:
    """Count the segments that end at or before the log start offset, except the last."""
    return sum(following.base_offset <= log.log_start_offset for following in log.segments[1:])


def _count_oversize(log: RetainedLog) -> int:
    """Count the segments that exceed retention.bytes."""
    if log.config.retention_bytes < 0:
        return 0
    surplus = log.size_bytes - log.config.retention_bytes
    count = 0
    for segment in log.segments:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def _count_expired(log: RetainedLog, now_ms: int) -> int:
    """Count the segments whose newest record is older than retention.ms, or whose file is if it has no timestamp."""
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments:
        timestamp = segment.maximum[0]
        newest_ms = timestamp if timestamp >= 0 else segment.created_ms
        if now_ms - newest_ms <= log.config.retention_ms:
            break
        count += 1
    return count


def _count_below(log: RetainedLog, offset: int) -> int:
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    return sum(end <= offset for end in ends)
