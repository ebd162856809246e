"""Segments in a row, by their offsets."""

from bisect import bisect_right
from collections.abc import Sequence

from runnel.storage.segment_file import SegmentFile


def segment_number(segments: Sequence[SegmentFile], offset: int) -> int:
    """The number of the segment that `offset` belongs to; that of the first if it is before all of them."""
    if len(segments) == 1:  # as in nearly all logs
        return 0
    return max(0, bisect_right(segments, offset, key=_base_offset) - 1)


def _base_offset(segment: SegmentFile) -> int:
    return segment.base_offset
