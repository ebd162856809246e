"""Which old segments may go, by age, by size, and those before the log's start; and how they leave the log.

They leave in memory, on the log's thread. `delete_files` has to follow, and may run elsewhere:
see `deletion` for what happens to the files.
"""

from typing import Protocol

from runnel.base.invariant import invariant
from runnel.storage.folder import Folder
from runnel.storage.log_config import LogConfig
from runnel.storage.producer_snapshot import remove_snapshots
from runnel.storage.segment import Segment
from runnel.storage.segment_swap import SwapDesk


class RetainedLog(Protocol):
    """What retention needs of a log."""

    config: LogConfig
    directory: str
    log_start_offset: int
    log_end_offset: int
    segments: list[Segment]
    swaps: SwapDesk

    @property
    def folder(self) -> Folder: ...

    @property
    def size_bytes(self) -> int: ...

    def roll(self) -> Segment: ...

    def advance_log_start(self, offset: int) -> None: ...


def apply_retention(log: RetainedLog, now_ms: int, up_to_offset: int) -> int:
    """Let the oldest segments leave that nothing keeps, none that reaches `up_to_offset`. Returns how many.

    Each rule looks at the segments in order and ends at the first that it keeps, as in Kafka:
    an old segment behind a newer one stays.
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
    """Let the `count` oldest segments leave, and begin the log after them."""
    if count == 0:
        return
    log.swaps.finish()
    if count == len(log.segments):
        log.roll()
    invariant(count < len(log.segments), "the last segment stays")
    log.advance_log_start(max(log.log_start_offset, log.segments[count].base_offset))
    # In this order, because a checkpoint that is written meanwhile must not take the files for gone.
    log.folder.deletions.begin(log.directory, log.segments[:count], log.config.file_delete_delay_ms)
    log.segments = log.segments[count:]


def delete_files(log: RetainedLog) -> None:
    """Rename the files of segments that left the log, on any thread. Their removal comes later."""
    if not log.folder.deletions.is_leaving(log.directory):
        return
    with log.folder.judging():
        log.folder.deletions.move(log.directory)
        remove_snapshots(log.folder.fs, log.directory, below=first_file_offset(log))


def first_file_offset(log: RetainedLog) -> int:
    """Where the log would begin if all segments counted whose files still have their names."""
    deletions = log.folder.deletions
    leaving = deletions.leaving(log.directory) if deletions.is_leaving(log.directory) else None
    return (leaving or log.segments)[0].base_offset


def _count_below_start(log: RetainedLog) -> int:
    """Those that end before the log begins; never the last."""
    return sum(following.base_offset <= log.log_start_offset for following in log.segments[1:])


def _count_oversize(log: RetainedLog) -> int:
    """Those without which retention.bytes are still there."""
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
    """Those whose newest record is older than retention.ms; without a timestamp the file's age counts."""
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
