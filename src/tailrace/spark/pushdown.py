"""The filters of a query that can be applied without reading records.

A range of offsets belongs to one topic and one partition, so filters on these are decided for the
whole range. Filters on offsets move its ends. A filter for records from a time on moves its start
to the first record at or after that time; later records may be older, so Spark applies the filter again. A filter
for records up to a time cannot be pushed down, because late records may follow.

Filters are recognised by the names of Spark's classes, so this module does not need Spark.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tailrace.base.sentinel import INT64_MAX
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.plan import OffsetRange

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda value, other: bool(value == other),
    "EqualNullSafe": lambda value, other: bool(value == other),
    "GreaterThan": lambda value, other: bool(value > other),
    "GreaterThanOrEqual": lambda value, other: bool(value >= other),
    "LessThan": lambda value, other: bool(value < other),
    "LessThanOrEqual": lambda value, other: bool(value <= other),
    "In": lambda value, others: value in others,
    "StringStartsWith": lambda value, other: bool(value.startswith(other)),
    "StringEndsWith": lambda value, other: bool(value.endswith(other)),
    "StringContains": lambda value, other: other in value,
}

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(slots=True)
class PushedFilters:
    """The filters that a scan applies, combined."""

    offset_min: int = 0
    offset_end: int = INT64_MAX
    time_min_ms: int | None = None
    topic: list[Any] = field(default_factory=list)
    partition: list[Any] = field(default_factory=list)

    def push(self, filters: Iterable[Any]) -> list[Any]:
        """Accept filters, and return those that Spark must still apply."""
        return [one for one in filters if not self._take(one)]

    def wants(self, partition: TopicPartition) -> bool:
        """Return whether any record of a partition can match."""
        return all(_holds(one, partition.topic) for one in self.topic) and all(
            _holds(one, partition.partition) for one in self.partition
        )

    def narrow(self, ranges: Iterable[OffsetRange], young: Mapping[TopicPartition, int | None]) -> list[OffsetRange]:
        """Return the parts of ranges that can match; `young` has the first offset from `time_min_ms` on, or None."""
        narrowed = []
        for one in ranges:
            partition = TopicPartition(one.topic, one.partition)
            start, end = max(one.start, self.offset_min), min(one.end, self.offset_end)
            if partition in young:
                first = young[partition]
                start = end if first is None else max(start, first)
            if start < end and self.wants(partition):
                narrowed.append(one._replace(start=start, end=end))
        return narrowed

    def _take(self, one: Any) -> bool:
        """Apply a filter as far as possible; returns whether Spark need not apply it again."""
        column = _column(one)
        if column == "topic" and _is_decided_by(one, str):
            self.topic.append(one)
        elif column == "partition" and _is_decided_by(one, int):
            self.partition.append(one)
        elif column == "offset":
            return self._take_offset(type(one).__name__, getattr(one, "value", None))
        elif column == "timestamp":
            return self._take_time(type(one).__name__, getattr(one, "value", None))
        else:
            return False
        return True

    def _take_offset(self, kind: str, value: Any) -> bool:
        if kind == "IsNotNull":
            return True  # every record has an offset
        values = value if kind == "In" else (value,)
        if not values or not all(_is_a(item, int) for item in values):
            return False
        least, most = min(values), max(values)
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThanOrEqual", "In"):
            self.offset_min = max(self.offset_min, least)
        if kind in ("EqualTo", "EqualNullSafe", "LessThanOrEqual", "In"):
            self.offset_end = min(self.offset_end, most + 1)
        if kind == "GreaterThan":
            self.offset_min = max(self.offset_min, most + 1)
        if kind == "LessThan":
            self.offset_end = min(self.offset_end, least)
        return kind in _COMPARISONS and kind != "In"

    def _take_time(self, kind: str, value: Any) -> bool:
        if kind == "IsNotNull":
            return True  # every record has a timestamp, if only -1
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual") and _is_a(value, datetime):
            time_ms = _floor_ms(value)
            if time_ms is not None and time_ms >= 0:
                self.time_min_ms = max(self.time_min_ms or 0, time_ms)
        return False


def _column(one: Any) -> str | None:
    """Return the only column of a filter."""
    attribute: tuple[str, ...] = getattr(getattr(one, "child", one), "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _is_decided_by(one: Any, kind: type) -> bool:
    """Return whether a filter compares with a non-null value of this type."""
    name = type(one).__name__
    if name == "Not":
        return _is_decided_by(one.child, kind)
    if name in ("IsNull", "IsNotNull"):
        return True
    if name == "In":
        return all(_is_a(item, kind) for item in one.value)
    return name in _COMPARISONS and _is_a(one.value, kind)


def _holds(one: Any, value: Any) -> bool:
    name = type(one).__name__
    if name == "Not":
        return not _holds(one.child, value)
    if name in ("IsNull", "IsNotNull"):
        return name == "IsNotNull"
    return _COMPARISONS[name](value, one.value)


def _floor_ms(moment: datetime) -> int | None:
    """Return milliseconds since the epoch, rounded down; None for a time without a time zone."""
    if moment.tzinfo is None:
        return None
    return (moment - _EPOCH) // timedelta(milliseconds=1)
