"""Reading topics as a batch: the offsets are settled when the query is planned, and tasks read them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from runnel.client.topic_partition import TopicPartition
from runnel.spark.bound import Edge
from runnel.spark.data_loss import Loss
from runnel.spark.discovery import Discovery
from runnel.spark.error import OptionError
from runnel.spark.option import SourceOptions
from runnel.spark.plan import OffsetRange, split_ranges
from runnel.spark.pushdown import PushedFilters
from runnel.spark.topic_io import topic_io


@dataclass
class RangePartition(InputPartition):
    """A task of Spark: one range of offsets, or None for a query that has nothing to read."""

    value: OffsetRange | None


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    """The rows of a task as `pyarrow.RecordBatch`es."""
    wanted = partition.value
    if wanted is None:  # Spark makes a task also where there is nothing to read
        return iter(())
    return topic_io(options.client).read(
        OffsetRange(*wanted), options.columns, timeout_ms=options.poll_timeout_ms, loss=Loss(options.fail_on_data_loss)
    )


class BatchReader(DataSourceReader):
    """Reads what lies between two bounds."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options.for_batch()
        self._filters = PushedFilters()

    def partitions(self) -> list[InputPartition]:
        """The ranges to read, in the driver."""
        ranges = split_ranges(self._ranges(), self._options.split)
        return [RangePartition(one) for one in ranges]

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
                    f"{partition} would start at {start[partition]}, after its end at {end[partition]}; "
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
        """The rows of one range, in a task."""
        return read_range(self._options, partition)


class FilteringBatchReader(BatchReader):
    """The same, for sessions in which spark.sql.python.filterPushdown.enabled is true; others refuse such a reader."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep to what filters say of topics, partitions, offsets and times; the rest is Spark's."""
        return self._filters.push(filters)
