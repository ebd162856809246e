"""A search in a sequence of segments by offset."""

from bisect import bisect_right
from collections.abc import Sequence

from tailrace.storage.segment.file import SegmentFile


def segment_number(segments: Sequence[SegmentFile], offset: int) -> int:
    """Return the number of the segment that contains `offset`, or 0 if it is before all segments."""
    if len(segments) == 1:  # as in nearly all logs
        return 0
    return max(0, bisect_right(segments, offset, key=_base_offset) - 1)


def _base_offset(segment: SegmentFile) -> int:
    return segment.base_offset
