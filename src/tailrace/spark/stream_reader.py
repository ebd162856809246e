"""The reader of topics as a stream.

One object lives in the driver as long as the query, and returns the end of each micro-batch. A position has the offsets
of all partitions. Spark keeps positions in its checkpoint, so the reader stores none. Tasks read ranges of offsets as
in a batch; the driver itself reads the only range of a small micro-batch (see `driver_rows`).

Spark logs the end of each batch, but not the start of the first one: if the driver crashes during the first batch, it
asks for the start again. A start at latest would then be a later offset, and the records in between would be skipped.
So the first batch reads nothing from a partition that starts at its end: the logged end of the first batch is the start
of the second.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tailrace.base.limits import SPARK_TASK_OFFSETS_SHARED_MAX
from tailrace.spark.admission import Admission
from tailrace.spark.batch_reader import RangePartition, read_ranges
from tailrace.spark.bound import Edge, Resolved
from tailrace.spark.data_loss import Loss
from tailrace.spark.discovery import Discovery
from tailrace.spark.driver_rows import DriverRows, read_rows
from tailrace.spark.option import SourceOptions, SplitOptions
from tailrace.spark.plan import OffsetRange, pack_ranges, plan_ranges, split_ranges
from tailrace.spark.position import OffsetJson, Offsets, from_json, to_json
from tailrace.spark.topic_io import topic_io

_DRIVER_TIMEOUT_MS = 1_000
"""How long the driver waits for records before it leaves them to a task: no query stops while its driver reads."""


class StreamReader(DriverRows, SupportsTriggerAvailableNow):
    """Reads topics in micro-batches."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options.for_stream()
        self._admission = Admission(self._options.admission)
        self._discovery: Discovery | None = None
        self._initial: Resolved | None = None
        self._is_first_batch = False
        self._latest: Offsets = {}
        self._is_available_now = False
        self._target: Offsets | None = None  # the end of a query with availableNow

    # --- positions, in the driver

    def initialOffset(self) -> OffsetJson:
        """Return the start position of a query without a checkpoint."""
        if self._initial is None:
            start = Edge.LATEST if self._options.start is None else self._options.start
            self._initial = self._ask.resolve(start, self._options.start_option, is_start=True)
        self._is_first_batch = True
        return to_json(self._initial.offsets)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the default limit, because the options set it."""
        limits = self._options.admission
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        return ReadAllAvailable() if limits.offsets_min is None else ReadMinRows(limits.offsets_min)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the end position of the next micro-batch; `start` if there is none yet."""
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

    def reportLatestOffset(self) -> OffsetJson | None:
        """Return the ends of all partitions, for the progress report; see `tailrace.spark.offsets_behind_latest`."""
        return to_json(self._latest) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the offsets that exist now, for trigger availableNow."""
        self._is_available_now = True

    def partitions(self, start: OffsetJson, end: OffsetJson) -> list[InputPartition]:
        """Return the ranges of one micro-batch."""
        begin, finish = self._settle_first(from_json(start), from_json(end)), from_json(end)
        new = finish.keys() - begin.keys()
        first = self._ask.earliest(new) if new else {}
        ranges = plan_ranges(begin, finish, first, Loss(self._options.fail_on_data_loss))
        tasks = pack_ranges(split_ranges(ranges, self._options.split), self._options.split)
        self.hand_over(self._read_small(tasks))
        return [RangePartition(task) for task in tasks]

    def _read_small(self, tasks: Sequence[tuple[OffsetRange, ...]]) -> list[Any] | None:
        """Return the rows of a micro-batch of one small task; None if tasks must read them."""
        if len(tasks) != 1 or self._options.split != SplitOptions():
            return None
        if sum(one.size for one in tasks[0]) > SPARK_TASK_OFFSETS_SHARED_MAX:
            return None
        quick = replace(self._options, poll_timeout_ms=min(self._options.poll_timeout_ms, _DRIVER_TIMEOUT_MS))
        return read_rows(read_ranges(quick, RangePartition(tasks[0])))

    def _settle_first(self, begin: Offsets, finish: Offsets) -> Offsets:
        """Return the start of a batch. A first batch that is planned again skips partitions that start at their end."""
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
        """Return the state for tasks, which need no connection."""
        return self.__dict__ | {"_discovery": None}

    # --- rows, in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of some ranges."""
        return read_ranges(self._options, partition)
