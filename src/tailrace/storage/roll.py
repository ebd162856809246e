"""The rule for when the next batch begins a new segment."""

from zlib import crc32

from tailrace.base.clock import Clock
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.storage.log_config import LogConfig
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.segment.segment import Segment


def must_roll(
    config: LogConfig,
    segment: Segment,
    clock: Clock,
    size_bytes: int,
    last_offset: int,
    max_timestamp: int,
    copied_offset: int | None,
) -> bool:
    """Return whether a batch with this size, last offset and timestamp needs a new segment.

    Raise `ApiError` if the batch is larger than any segment. A batch with a `copied_offset` may be larger, because a
    leader took it: segment.bytes was lowered since, or is not the same on this broker.
    """
    if segment.size_bytes > config.segment_bytes - size_bytes:
        if size_bytes > config.segment_bytes and copied_offset is None:
            message = f"the batch of {size_bytes} bytes is larger than segment.bytes ({config.segment_bytes})"
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, message)
        return True
    if segment.size_bytes == 0:
        return False
    # As in Kafka, the age is that of the records if they have timestamps, so that appending old
    # records again creates the same segments.
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
    """Return the jitter of a segment: different for each segment, and always the same for one."""
    return crc32(segment.path("").encode()) % config.segment_jitter_ms
