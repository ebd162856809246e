"""The search for the records for which the function of a flow fails.

Spark does not say for which row a function raised an error. So the records of the failed batch are read again, as a
batch query that writes nowhere, in halves of halves, until single records are left. These are sent to the dead-letter
topic or skipped, as errors= of the flow says, and the flow repeats its batch without them.

That works for flows with one source, a topic, whose query handles each row by itself: where rows meet, in groups,
joins or state, a part of a batch can fail though the batch would not. If both halves of a failing range pass, or the
query fails without any record, the search finds nothing.

The queries run in the thread that watches all flows. While it waits for one, a second thread cancels the query if the
pipeline is to stop.
"""

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.base.limits import PIPELINE_CULPRITS_MAX, PIPELINE_LEFT_OUT_MAX
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.spark.connector.base import Delivery, FlowStart
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.record_row import RECORD, read_record
from tailrace.spark.connector.topic.frame import decode
from tailrace.spark.connector.topic.left_out import load_without, read_left_out, write_left_out
from tailrace.spark.connector.topic.topic import Topic
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import PipelineError
from tailrace.spark.option import STREAM_ONLY, parse_source_options
from tailrace.spark.pipeline.cause import explain_failure, last_python_error
from tailrace.spark.pipeline.checkpoint import Unfinished, read_unfinished
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.pipeline.query_plan import inlined_plan
from tailrace.spark.pipeline.restart import can_pass
from tailrace.spark.plan import OffsetRange, cut
from tailrace.spark.position import Offsets, parse_offsets
from tailrace.spark.record_place import RecordPlace
from tailrace.spark.topic_io import topic_io

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

_LOOK_INTERVAL_S = 0.1
REASON = "the function of the flow failed"
_STREAM_ONLY = frozenset(map(str.lower, STREAM_ONLY))
_OPERATOR = re.compile(r"[\s:+|-]*([A-Za-z0-9]+)")
_MAPS = ("Filter", "Generate", "MapInArrow", "MapInPandas", "Project", "PythonMapInArrow")
_ROW_BY_ROW = frozenset((*_MAPS, "CollectMetrics", "EventTimeWatermark", "RelationV2", "SubqueryAlias", "View"))
"""The names of Spark's operators that handle each row by itself."""

Ranges = tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Culprit:
    """A record for which the function fails, and its error."""

    record: RecordPlace
    error: Exception


class SearchStopped(Exception):
    """The pipeline is to stop, and the search has ended without a result."""


def leave_out_culprits(spark: "SparkSession", plan: FlowPlan, file: Path, stopping: threading.Event) -> list[Culprit]:
    """Find the records for which the function fails, send or skip them, and exclude them from the repeated batch.

    Returns none if the failure has another reason, or if errors stop the flow. Raises `PipelineError` if too many
    records of the batch fail, `SearchStopped` when `stopping` is set, and temporary errors, such as those of a broker
    that is being restarted.
    """
    source = plan.flow.sources[0]
    if not isinstance(source, Topic) or not _can_search(plan):
        return []
    batch = read_unfinished(plan.checkpoint)
    if batch is None:
        return []
    search = _Search(spark, plan, source, stopping)
    with _cancelled_on(stopping, spark):
        ranges = search.ranges(batch)
        if not ranges or not search.handles_rows_alone(tuple(one._replace(end=one.start) for one in ranges)):
            return []
        found = find_culprits(ranges, search.failure)
    if found:
        before = read_left_out(plan.checkpoint)
        if len(before) + len(found) > PIPELINE_LEFT_OUT_MAX:
            raise PipelineError(f"the function fails for more than {PIPELINE_LEFT_OUT_MAX} records of one batch")
        plan.place.rejects.take([search.read(one, file) for one in found])
        write_left_out(plan.checkpoint, batch.batch_id, {one.record for one in found}.union(before))
        plan.place.refused.add({REASON: len(found)})
    return found


def find_culprits(ranges: Ranges, failure: Callable[[Ranges], Exception | None]) -> list[Culprit]:
    """Return the single records for which `failure` returns an error; none if no single record causes it.

    If the search ends at its limit, there can be more of them, and the repeated batch fails again.
    """
    error = failure(ranges)
    if error is None:
        return []
    found: list[Culprit] = []
    failing = [(ranges, error)]
    while failing and len(found) < PIPELINE_CULPRITS_MAX:
        whole, error = failing.pop()
        if len(whole) == 1 and whole[0].size == 1:
            found.append(Culprit(RecordPlace(whole[0].topic, whole[0].partition, whole[0].start), error))
            continue
        halves = [(half, failure(half)) for half in halve(whole)]
        bad = [(half, reason) for half, reason in halves if reason is not None]
        if not bad:
            return []
        failing += reversed(bad)
    return sorted(found, key=lambda culprit: culprit.record)


def halve(ranges: Ranges) -> tuple[Ranges, ...]:
    """Return two parts of some ranges, each with at least one offset; one range of a single offset stays whole."""
    if len(ranges) == 1:
        return tuple((part,) for part in cut(ranges[0], 2))
    middle = len(ranges) // 2
    return ranges[:middle], ranges[middle:]


def is_row_by_row(plan: str) -> bool:
    """Return whether the operators of a query, in Spark's analyzed plan as text, handle each row by itself."""
    operators = (_OPERATOR.match(line) for line in plan.splitlines() if line.strip())
    return all(found is not None and found[1] in _ROW_BY_ROW for found in operators)


def _can_search(plan: FlowPlan) -> bool:
    return (
        len(plan.flow.sources) == 1
        and plan.place.errors.action is not OnError.STOP
        and plan.place.delivery is not Delivery.AT_MOST_ONCE  # which never repeats a batch
        and not plan.flow.is_realtime
    )


@contextmanager
def _cancelled_on(stopping: threading.Event, spark: "SparkSession") -> Iterator[None]:
    """Cancel the queries that the block runs, from the moment when the event is set."""
    context, tag = spark.sparkContext, f"tailrace-search-{uuid.uuid4().hex}"
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_INTERVAL_S):
            if stopping.is_set():
                context.cancelJobsWithTag(tag)  # repeatedly, because the next query may have started meanwhile

    watching = threading.Thread(target=watch, name="search", daemon=True)
    context.addJobTag(tag)
    context.setInterruptOnCancel(True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
        context.setInterruptOnCancel(False)
        context.removeJobTag(tag)


class _Search:
    """The queries of one search."""

    def __init__(self, spark: "SparkSession", plan: FlowPlan, source: Topic, stopping: threading.Event) -> None:
        self._spark = spark
        self._plan = plan
        self._source = source
        self._stopping = stopping

    def ranges(self, batch: Unfinished) -> Ranges:
        """Return the offsets that a batch reads."""
        start = {**self._first_offsets(batch), **batch.start}
        ends = sorted(batch.end.items())
        return tuple(OffsetRange(*one, start[one], end) for one, end in ends if start[one] < end)

    def _first_offsets(self, batch: Unfinished) -> Offsets:
        """Return the start of partitions that no batch had read before, as the reader of the stream chooses it."""
        options = {name.lower() for name in self._source.options}
        if batch.batch_id == 0 and any(name.startswith("starting") for name in options):
            return dict(batch.end)  # a start by time is not searched
        given = self._source.start or "earliest"
        chosen = parse_offsets("start", given) if given.startswith("{") else {}
        usual = LATEST if given == "latest" else EARLIEST
        new = [one for one in batch.end if one not in batch.start]
        found = {one: chosen.get(one, usual) if batch.batch_id == 0 else EARLIEST for one in new}
        settings = parse_source_options(self._options()).client
        earliest = topic_io(settings).offsets({one: EARLIEST for one, offset in found.items() if offset == EARLIEST})
        # The first batch reads nothing from a partition that starts at its end.
        return {
            one: batch.end[one] if offset == LATEST else earliest.get(one, offset) or 0 for one, offset in found.items()
        }

    def handles_rows_alone(self, nothing: Ranges) -> bool:
        """Return whether the query handles each row by itself, and does not fail without any record."""
        try:
            is_one = is_row_by_row(str(inlined_plan(self._rows(nothing)).toString()))
        except Exception as error:
            if can_pass(error):
                raise
            return False
        return is_one and self.failure(nothing) is None

    def failure(self, ranges: Ranges) -> Exception | None:
        """Return the error of the function for some records; raises temporary errors and `SearchStopped`."""
        if self._stopping.is_set():
            raise SearchStopped
        try:
            self._rows(ranges).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if self._stopping.is_set():
                raise SearchStopped from None
            if can_pass(error):
                raise
            return error
        return None

    def _rows(self, ranges: Ranges) -> "DataFrame":
        """Return what the function makes of some records."""
        start = FlowStart(self._spark, self._plan.place)
        options = self._range_options(ranges)
        if (columns := self._options().get("columns")) is not None:
            options["columns"] = columns
        rows = load_without(self._reader(), options, read_left_out(self._plan.checkpoint))
        rejects = self._plan.place.rejects.without_sending()
        return self._plan.flow(decode(rows, self._source, start, rejects))

    def read(self, culprit: Culprit, file: Path) -> Rejected:
        """Return the record of a culprit as it was rejected."""
        from pyspark.sql.functions import unix_millis

        topic, partition, offset = culprit.record
        options = self._range_options((OffsetRange(topic, partition, offset, offset + 1),))
        rows = self._reader().options(**options, columns=",".join(RECORD)).load()
        (row,) = rows.withColumn("timestamp_ms", unix_millis("timestamp")).drop("timestamp").collect()
        text, python = str(culprit.error), last_python_error(str(culprit.error))
        kind = type(culprit.error).__name__ if python is None else python.kind
        fault = Fault(explain_failure(culprit.error, file), kind, f"{__name__}.{type(self).__name__}", text)
        return read_record(_plain(row.asDict(recursive=True)), fault, Stage.TRANSFORM)

    def _options(self) -> dict[str, str]:
        return self._source.source_options(self._plan.place)

    def _reader(self) -> "DataFrameReader":
        return self._spark.read.format("tailrace")

    def _range_options(self, ranges: Ranges) -> dict[str, str]:
        """Return the options of the flow's reader for these ranges of offsets, as a batch."""
        options = {name: text for name, text in self._options().items() if not _is_of_stream(name)}
        assigned: dict[str, list[int]] = {}
        bounds: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]] = ({}, {})
        for one in ranges:
            assigned.setdefault(one.topic, []).append(one.partition)
            for bound, offset in zip(bounds, (one.start, one.end), strict=True):
                bound.setdefault(one.topic, {})[str(one.partition)] = offset
        options["assign"] = json.dumps(assigned)
        options["startingOffsets"], options["endingOffsets"] = map(json.dumps, bounds)
        return options


def _is_of_stream(option: str) -> bool:
    name = option.lower()
    return name in _STREAM_ONLY or name in ("subscribe", "columns") or name.startswith(("starting", "ending"))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with bytes where Spark has byte arrays."""
    row |= {name: bytes(row[name]) for name in ("key", "value") if row[name] is not None}
    for header in row["headers"] or ():
        header["value"] = None if header["value"] is None else bytes(header["value"])
    return row
