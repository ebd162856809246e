"""Reading topics as a stream.

In the driver one object lives as long as the query and is asked, again and again, how far the next
micro-batch goes. Positions are the offsets of all partitions; Spark keeps them in its checkpoint,
so nothing has to be remembered here. Tasks read ranges of offsets just as in a batch.

Spark logs where a batch ends, but not where the first one starts: if the driver dies during the
first batch, it asks for the start again. A start at the end of the log would then be another one,
and the records in between would be skipped. So the first batch takes nothing of a partition that
starts at its end: what is logged as the end of the first batch is the start of the second.
"""

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from runnel.spark.admission import Admission
from runnel.spark.batch_reader import RangePartition, read_range
from runnel.spark.bound import Edge, Resolved
from runnel.spark.data_loss import Loss
from runnel.spark.discovery import Discovery
from runnel.spark.option import SourceOptions
from runnel.spark.plan import plan_ranges, split_ranges
from runnel.spark.position import OffsetJson, Offsets, from_json, to_json
from runnel.spark.topic_io import topic_io


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads everything that is written to topics, micro-batch by micro-batch."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options.for_stream()
        self._admission = Admission(self._options.admission)
        self._discovery: Discovery | None = None
        self._initial: Resolved | None = None
        self._is_first_batch = False
        self._latest: Offsets = {}
        self._is_available_now = False
        self._target: Offsets | None = None  # where a query that takes what is there now will end

    # --- positions, in the driver

    def initialOffset(self) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint starts."""
        if self._initial is None:
            start = Edge.LATEST if self._options.start is None else self._options.start
            self._initial = self._ask.resolve(start, self._options.start_option, is_start=True)
        self._is_first_batch = True
        return to_json(self._initial.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much a micro-batch takes, as the options have it."""
        limits = self._options.admission
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802 - Spark's name
        """Where the next micro-batch ends; `start` itself when there is nothing to do yet."""
        position = from_json(start)
        self._latest = self._find_latest(position)
        new = self._latest.keys() - position.keys()
        end = self._admission.admit(
            position | (self._ask.earliest(new) if new else {}),
            self._latest,
            offsets_max=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            may_wait=not self._is_available_now and not isinstance(limit, ReadAllAvailable),
            now_ms=time.monotonic() * 1000,
        )
        if self._is_first_batch and self._initial is not None and end is not None:
            end = end | {key: position[key] for key in self._initial.floating & end.keys()}
        self._is_first_batch = False
        return to_json(position if end is None else end)

    def _find_latest(self, position: Offsets) -> Offsets:
        if not self._is_available_now:
            return self._ask.latest(position)
        if self._target is None:
            self._target = self._ask.latest(position)
        return self._target

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802 - Spark's name
        """The ends of all partitions, for the progress report; see `runnel.spark.offsets_behind_latest`."""
        return to_json(self._latest) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there when the query starts, and no further."""
        self._is_available_now = True

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """The ranges of one micro-batch."""
        begin, finish = self._settle_first(from_json(start), from_json(end)), from_json(end)
        new = finish.keys() - begin.keys()
        first = self._ask.earliest(new) if new else {}
        ranges = plan_ranges(begin, finish, first, Loss(self._options.fail_on_data_loss))
        return [RangePartition(one) for one in split_ranges(ranges, self._options.split)]

    def _settle_first(self, begin: Offsets, finish: Offsets) -> Offsets:
        """Where a batch begins. The first, planned again after a crash, took nothing of what starts at its end."""
        self._is_first_batch = False
        if self._initial is None or begin != self._initial.offsets:
            return begin
        floating = self._initial.floating
        return {
            key: min(offset, finish[key]) if key in floating else offset
            for key, offset in begin.items()
            if key in finish or key not in floating
        }

    @property
    def _ask(self) -> Discovery:
        if self._discovery is None:
            self._discovery = Discovery(self._options, topic_io(self._options.client))
        return self._discovery

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get a copy, which needs no connection."""
        return self.__dict__ | {"_discovery": None}

    # --- rows, in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one range."""
        return read_range(self._options, partition)
