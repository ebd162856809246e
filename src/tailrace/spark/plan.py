"""The ranges of offsets between two positions, and their division into Spark tasks."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tailrace.base.limits import SPARK_TASK_OFFSETS_SHARED_MAX
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.data_loss import Loss
from tailrace.spark.option import SplitOptions
from tailrace.spark.position import Offsets, shown


class OffsetRange(NamedTuple):
    """Offsets of one partition from `start` up to, but without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; compaction and transactions leave fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.end}"


def plan_ranges(start: Offsets, end: Offsets, first: Offsets, loss: Loss) -> list[OffsetRange]:
    """Return the ranges between two positions.

    `first` has the first offsets of partitions that are new in `end`, without deleted ones. Records that the query
    should have read and cannot are reported to `loss`.
    """
    new = end.keys() - start.keys()
    if gone := new - first.keys():
        loss.report(f"{shown(gone)} was created and deleted before the query read any record")
    for partition in sorted(new & first.keys()):
        if first[partition] > 0:
            loss.report(f"the new partition {partition} starts at {first[partition]} instead of 0")
    if gone := start.keys() - end.keys():
        loss.report(f"{shown(gone)} was deleted")
    ranges = []
    for partition in sorted(end.keys() - (new - first.keys())):
        begin = start[partition] if partition in start else first[partition]
        if end[partition] < begin:
            loss.report(
                f"{partition} ends at {end[partition]}, before the query's position {begin}; "
                "the topic was deleted and created again, or startingOffsets was beyond its end"
            )
        elif end[partition] > begin:
            ranges.append(OffsetRange(partition.topic, partition.partition, begin, end[partition]))
    return ranges


def split_ranges(ranges: Iterable[OffsetRange], options: SplitOptions) -> list[OffsetRange]:
    """Split ranges so that none has more than `records_max` offsets, and there are about `partitions_min` of them."""
    found = [one for one in ranges if one.size > 0]
    if options.records_max is not None:
        found = [part for one in found for part in cut(one, -(-one.size // options.records_max))]
    if options.partitions_min is not None and options.partitions_min > len(found):
        found = _cut_large(found, options.partitions_min)
    return found


def pack_ranges(ranges: Sequence[OffsetRange], options: SplitOptions) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task: small ones share a task, unless the options divide them."""
    if options != SplitOptions():
        return [(one,) for one in ranges]
    tasks: list[tuple[OffsetRange, ...]] = []
    shared: list[OffsetRange] = []
    for one in ranges:
        if sum(each.size for each in (*shared, one)) > SPARK_TASK_OFFSETS_SHARED_MAX and shared:
            tasks.append(tuple(shared))
            shared = []
        shared.append(one)
    return [*tasks, tuple(shared)] if shared else tasks


def _cut_large(ranges: Sequence[OffsetRange], partitions_min: int) -> list[OffsetRange]:
    """Split the large ranges in proportion to their size; small ranges stay whole."""
    total = sum(one.size for one in ranges)
    small = {one for one in ranges if _share(one.size, total, partitions_min) == 1}
    large_total = total - sum(one.size for one in small)
    large_min = max(1, partitions_min - len(small))
    return [
        part for one in ranges for part in cut(one, 1 if one in small else _share(one.size, large_total, large_min))
    ]


def _share(size: int, total: int, count: int) -> int:
    """Return a range's share of `count` tasks, rounded to the nearest, and at least one."""
    return max(1, (2 * size * count + total) // (2 * total)) if total else 1


def cut(whole: OffsetRange, part_count: int) -> list[OffsetRange]:
    """Split a range into parts of nearly equal size, none of them empty."""
    count = min(part_count, whole.size)
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(edges)]


def check_given(
    offsets: Offsets, given: Iterable[TopicPartition], first: Offsets, last: Offsets, option: str, loss: Loss
) -> Offsets:
    """Move the user's offsets into the log if they are outside of it, which is reported to `loss`."""
    checked = dict(offsets)
    for partition in sorted(given):
        offset = offsets[partition]
        nearest = min(max(offset, first[partition]), last[partition])
        if nearest != offset:
            loss.report(
                f"option {option}: offset {offset} of {partition} is out of range; "
                f"the partition has offsets from {first[partition]} to {last[partition]}"
            )
            checked[partition] = nearest
    return checked
