"""The bounds of a query: the edges of the log, offsets, or times.

Resolving a bound takes at most two requests to the brokers. The caller passes the function that sends them, so the
rules can be tested without brokers.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeAlias

from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.error import OptionError
from tailrace.spark.position import Offsets, shown


class Edge(IntEnum):
    """The log start offset or the log end offset of a partition, with Kafka's numbers."""

    LATEST = LATEST
    EARLIEST = EARLIEST


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for every partition; -2 and -1 stand for the edges."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A time for every partition, in milliseconds."""

    times_ms: Offsets


@dataclass(frozen=True, slots=True)
class AtTime:
    """One time for all partitions, in milliseconds."""

    time_ms: int


Bound: TypeAlias = Edge | AtOffsets | AtTimes | AtTime


class NoMatch(Enum):
    """What to do in a partition without a record at or after the starting time."""

    ERROR = "error"
    LATEST = "latest"


Ask: TypeAlias = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]
"""The first offset at or after a time in each partition, or None; -1 and -2 stand for the edges."""


@dataclass(slots=True)
class Resolved:
    """The resolved offsets of every partition, and their origin."""

    offsets: Offsets
    given: set[TopicPartition] = field(default_factory=set)
    """Partitions whose offset the user set; it may be outside the log."""
    floating: set[TopicPartition] = field(default_factory=set)
    """Partitions at their current log end offset, which a second lookup would change."""


def resolve(
    bound: Bound,
    partitions: Collection[TopicPartition],
    ask: Ask,
    *,
    option: str,
    is_start: bool,
    no_match: NoMatch = NoMatch.ERROR,
) -> Resolved:
    """Return the offset of a bound in each partition; errors name `option`."""
    match bound:
        case Edge():
            wanted = dict.fromkeys(partitions, int(bound))
        case AtOffsets(offsets):
            wanted = _of_exactly(partitions, offsets, option)
        case AtTimes(times_ms):
            times = _of_exactly(partitions, times_ms, option)
            wanted = _at_times(times, ask, option, is_start, no_match)
        case AtTime(time_ms):
            wanted = _at_times(dict.fromkeys(partitions, time_ms), ask, option, is_start, no_match)
    edges = {partition: offset for partition, offset in wanted.items() if offset in (LATEST, EARLIEST)}
    found = ask(edges) if edges else {}
    offsets = {partition: _edge_offset(found, partition, offset) for partition, offset in wanted.items()}
    return Resolved(
        offsets,
        given=set(wanted) - set(edges) if isinstance(bound, AtOffsets) else set(),
        floating={partition for partition, offset in edges.items() if offset == LATEST},
    )


def _edge_offset(found: Mapping[TopicPartition, int | None], partition: TopicPartition, offset: int) -> int:
    if partition not in found:
        return offset
    return found[partition] or 0


def _of_exactly(partitions: Collection[TopicPartition], given: Offsets, option: str) -> Offsets:
    """Return the values if they cover exactly these partitions, as Spark's own connector requires."""
    missing, unknown = set(partitions) - given.keys(), given.keys() - set(partitions)
    if missing:
        raise OptionError(option, f"{shown(missing)} is missing; use -2 for earliest, -1 for latest")
    if unknown:
        raise OptionError(option, f"this query does not read {shown(unknown)}")
    return dict(given)


def _at_times(times_ms: Offsets, ask: Ask, option: str, is_start: bool, no_match: NoMatch) -> Offsets:
    found = ask(times_ms)
    offsets = {}
    for partition, time_ms in times_ms.items():
        offset = found[partition]
        if offset is None and is_start and no_match is NoMatch.ERROR:
            raise OptionError(
                option,
                f"{partition} has no record at or after {time_ms} ms; choose an earlier time, or set "
                "startingOffsetsByTimestampStrategy to latest to start at the end there",
            )
        offsets[partition] = LATEST if offset is None else offset
    return offsets
