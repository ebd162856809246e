"""When a segment is full or old enough that the next batch begins another."""

from zlib import crc32

from runnel.base.clock import Clock
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.storage.log_config import LogConfig
from runnel.storage.offset_index import RELATIVE_OFFSET_MAX
from runnel.storage.segment import Segment


def must_roll(
    config: LogConfig, segment: Segment, clock: Clock, size_bytes: int, last_offset: int, max_timestamp: int
) -> bool:
    """Whether a batch of that size, last offset and newest time needs another segment."""
    if segment.size_bytes > config.segment_bytes - size_bytes:
        if size_bytes > config.segment_bytes:
            message = f"a batch of {size_bytes} bytes is larger than segment.bytes {config.segment_bytes}"
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
        return True
    if segment.size_bytes == 0:
        return False
    # As in Kafka, time is that of the records where they have one, so that replaying old
    # records makes the same segments.
    first_timestamp = segment.first_timestamp
    waited_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else clock.now_ms() - segment.created_ms
    wait_ms = config.roll_ms
    if config.segment_jitter_ms:
        wait_ms -= _jitter_ms(config, segment)
    return (
        waited_ms > wait_ms
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        or segment.is_index_full(config.segment_index_bytes)
    )


def _jitter_ms(config: LogConfig, segment: Segment) -> int:
    """What is taken off the time of a segment: another part of the jitter for each, and always the same one."""
    return crc32(segment.path("").encode()) % config.segment_jitter_ms
