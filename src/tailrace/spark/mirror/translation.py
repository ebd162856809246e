"""The translation of offsets from the source to the target. Pure.

A mirror keeps the order of records within a partition, but target offsets are chosen by the target: transaction
markers, compaction, aborted records and other producers make the two differ. What is known are *spans*: `record_count`
records that follow each other without gaps in both logs, from `source` in the one and from `target` in the other.

A committed offset s of a group means that it has read all records below s. The translation of s is the target offset t
such that every copied record from s on is at t or later; otherwise the group would skip a record. The last span that
starts at or before s proves it:

- within the span, the record at s has the target offset `target + (s - source)`, exactly;
- after the span, all records from s on were copied after its last one, so they are at `target + record_count` or later.

The second rule may be too low by what is between the span and s, and then the group reads these records again. A lost
span therefore costs repeated records, but never a skipped one. Before the first known span nothing is proven, and there
is no translation.
"""

from bisect import bisect_right
from typing import NamedTuple

from tailrace.base.invariant import invariant
from tailrace.base.mirror_limits import MIRROR_SPANS_KEPT_MAX


class Span(NamedTuple):
    """Records that follow each other without gaps in both logs."""

    source: int
    target: int
    record_count: int

    @property
    def source_end(self) -> int:
        """The source offset after the last record."""
        return self.source + self.record_count

    @property
    def target_end(self) -> int:
        """The target offset after the last record."""
        return self.target + self.record_count

    def continues(self, other: "Span") -> bool:
        """Return whether this span follows the other without a gap in both logs."""
        return other.source_end == self.source and other.target_end == self.target


def join_spans(spans: list[Span]) -> list[Span]:
    """Return spans in order as few as possible: neighbours become one."""
    joined: list[Span] = []
    for span in spans:
        if joined and span.continues(joined[-1]):
            joined[-1] = joined[-1]._replace(record_count=joined[-1].record_count + span.record_count)
        else:
            joined.append(span)
    return joined


class Translation:
    """The known spans of one partition, in order, of which the older half is thinned out when there are too many."""

    def __init__(self, kept_max: int = MIRROR_SPANS_KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._spans: list[Span] = []
        self._sources: list[int] = []

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def last(self) -> Span | None:
        """The newest span."""
        return self._spans[-1] if self._spans else None

    def add(self, span: Span) -> None:
        """Add the newest span. One that starts over replaces those from its source offset on."""
        invariant(span.record_count > 0, "a span has records")
        if self._spans and span.continues(self._spans[-1]):
            self._spans[-1] = self._spans[-1]._replace(record_count=self._spans[-1].record_count + span.record_count)
            return
        while self._spans and (self._spans[-1].source_end > span.source or self._spans[-1].target_end > span.target):
            self._spans.pop()  # the source topic was created anew, or the log of the target was
            self._sources.pop()
        self._spans.append(span)
        self._sources.append(span.source)
        if len(self._spans) > self._kept_max:
            self._thin()

    def translate(self, offset: int) -> int | None:
        """Return the target offset from which a group with this committed offset goes on; None if nothing is proven."""
        index = bisect_right(self._sources, offset) - 1
        if index < 0:
            return None
        span = self._spans[index]
        return span.target + min(offset - span.source, span.record_count)

    def _thin(self) -> None:
        """Drop every second span of the older half, except the first."""
        middle = len(self._spans) // 2
        self._spans[:middle] = self._spans[:middle:2]
        self._sources = [span.source for span in self._spans]
