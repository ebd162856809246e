"""Which old segments may go: by age, by size, and those before the log's start."""

from typing import Protocol

from runnel.storage.log_config import LogConfig
from runnel.storage.segment import Segment


class RetainedLog(Protocol):
    """What retention needs of a log."""

    config: LogConfig
    log_start_offset: int
    log_end_offset: int
    segments: list[Segment]

    @property
    def size_bytes(self) -> int: ...

    def delete_segments(self, count: int) -> None: ...


def apply_retention(log: RetainedLog, now_ms: int, up_to_offset: int) -> int:
    """Delete the oldest segments that nothing keeps, none that reaches `up_to_offset`. Returns how many.

    Each rule looks at the segments in order and ends at the first that it keeps, as in Kafka:
    an old segment behind a newer one stays.
    """
    count = _count_below_start(log)
    if log.config.cleanup_policy_delete:
        count = max(count, _count_oversize(log), _count_expired(log, now_ms))
    count = min(count, _count_below(log, up_to_offset))
    if count == len(log.segments) and log.segments[-1].size_bytes == 0:
        count -= 1
    log.delete_segments(count)
    return count


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
