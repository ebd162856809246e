"""The reader of topics as a batch: planning determines the offsets, and tasks read them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.bound import Edge
from tailrace.spark.data_loss import Loss
from tailrace.spark.discovery import Discovery
from tailrace.spark.error import OptionError
from tailrace.spark.option import SourceOptions
from tailrace.spark.plan import OffsetRange, split_ranges
from tailrace.spark.pushdown import PushedFilters
from tailrace.spark.topic_io import topic_io


@dataclass
class RangePartition(InputPartition):
    """A Spark task: some ranges of offsets, or None for a query without records."""

    value: tuple[OffsetRange, ...] | None


def read_ranges(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """Return the rows of a task as `pyarrow.RecordBatch`es."""
    wanted = partition.value
    if wanted is None:  # Spark creates one task even without records
        return iter(())
    ranges = [OffsetRange(*one) for one in wanted]
    loss = Loss(options.fail_on_data_loss)
    return topic_io(options.client).read(ranges, options.columns, timeout_ms=options.poll_timeout_ms, loss=loss)


class BatchReader(DataSourceReader):
    """Reads the records between two bounds."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options.for_batch()
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read, in the driver."""
        return [RangePartition((one,)) for one in split_ranges(self._ranges(), self._options.split)]

    def _ranges(self) -> list[OffsetRange]:
        options = self._options
        discovery = Discovery(options, topic_io(options.client))
        start = discovery.resolve(options.start or Edge.EARLIEST, options.start_option, is_start=True).offsets
        end = discovery.resolve(options.end, options.end_option, is_start=False).offsets
        ranges = []
        for partition in sorted(start.keys() & end.keys()):
            if start[partition] > end[partition]:
                raise OptionError(
                    options.start_option,
                    f"{partition} starts at {start[partition]}, after its end at {end[partition]}; "
                    f"change it or {options.end_option}",
                )
            ranges.append(OffsetRange(partition.topic, partition.partition, start[partition], end[partition]))
        return self._narrow(ranges, discovery)

    def _narrow(self, ranges: list[OffsetRange], discovery: Discovery) -> list[OffsetRange]:
        ranges = self._filters.narrow(ranges, {})
        if self._filters.time_min_ms is None:
            return ranges
        partitions = {TopicPartition(one.topic, one.partition) for one in ranges}
        return self._filters.narrow(ranges, discovery.times(partitions, self._filters.time_min_ms))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of some ranges, in a task."""
        return read_ranges(self._options, partition)


class FilteringBatchReader(BatchReader):
    """A reader with filter pushdown, for sessions with spark.sql.python.filterPushdown.enabled; others reject it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Apply filters on topics, partitions, offsets and times, and return the other filters to Spark."""
        return self._filters.push(filters)
