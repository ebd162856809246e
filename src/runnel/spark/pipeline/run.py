"""Running a pipeline: one streaming query for each flow, in one session.

The main thread starts the queries and asks from time to time what became of them; Spark reports
progress from a thread of its own. A flow that fails ends the others, because what they write may
depend on it; nothing is lost by that, since each goes on from its checkpoint.

Each source is a Python process, to which Spark gives ten seconds to start. Where a machine is busy that
can be too short for several at once, so the next flow starts when those before it have their
sources, and a flow that fails for this reason is started again.
"""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runnel.base.limits import PIPELINE_RESTARTS_MAX
from runnel.spark.pipeline.cause import explain_failure
from runnel.spark.pipeline.endpoint import Parquet
from runnel.spark.pipeline.error import FlowError, PipelineError
from runnel.spark.pipeline.frame import decode, encode
from runnel.spark.pipeline.load import Pipeline
from runnel.spark.pipeline.plan import FlowPlan
from runnel.spark.pipeline.tally import OUT_METRIC, OUT_ROWS, FlowTally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_BETWEEN_BATCHES_TIMEOUT_S = 10.0
_LAST_REPORT_TIMEOUT_S = 5.0
_LOOK_INTERVAL_S = 0.01
_SOURCES_TIMEOUT_S = 30.0
_INITIALISING = "Initializing sources"  # as Spark says it
_WORKER_LATE = "Python worker failed to connect back"

SESSION_CONFIG = {
    # Flows take turns: with one queue, a long batch of one would hold up all others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stopTimeout": "30s",
}


class PipelineRun:
    """The queries of a pipeline, from their start to their end."""

    def __init__(self, spark: "SparkSession", pipeline: Pipeline, plans: Sequence[FlowPlan]) -> None:
        self.tallies = {plan.name: FlowTally(plan.name) for plan in plans}
        self._spark = spark
        self._pipeline = pipeline
        self._plans = plans
        self._queries: dict[str, StreamingQuery] = {}
        self._restart_counts: dict[str, int] = {}
        self._once = False
        self._lock = threading.Lock()
        self._reported_end: set[str] = set()
        self._listener: Any = None
        _send_by_value(pipeline)

    def start(self, *, once: bool = False) -> None:
        """Start every flow; raises `FlowError` for one that cannot be, when none is left running."""
        from runnel.spark.pipeline.listener import ProgressListener

        self._listener = ProgressListener(self._take_progress, self._take_end)
        self._spark.streams.addListener(self._listener)
        self._once = once
        for plan in self._plans:
            self._start_query(plan)
            _await_sources(self._queries[plan.name])

    def check(self) -> bool:
        """Whether any flow is still running; raises `FlowError` when one has failed, and ends the others."""
        running = False
        for name, query in [*self._queries.items()]:
            if query.isActive:
                running = True
                continue
            failure = query.exception()
            if failure is not None and self._may_restart(name, failure):
                self._start_query(next(plan for plan in self._plans if plan.name == name))
                running = True
            elif failure is not None:
                cause = explain_failure(failure, self._pipeline.path)
                self.tallies[name].state, self.tallies[name].cause = "failed", cause
                self.stop()
                raise FlowError(name, cause)
            else:
                self.tallies[name].state = "finished"
        return running

    def stop(self) -> None:
        """End every flow, where it can be between two batches, so that none has to be done again."""
        stopping = [threading.Thread(target=_stop_query, args=(query,)) for query in self._queries.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self._await_reports()
        for tally in self.tallies.values():
            if tally.state in ("starting", "running"):
                tally.state = "stopped"
        if self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._listener = None

    def snapshot(self) -> list[FlowTally]:
        """The numbers of every flow, in the order of the file."""
        return [self.tallies[plan.name] for plan in self._plans]

    # --- one flow

    def _start_query(self, plan: FlowPlan) -> None:
        try:
            self._queries[plan.name] = self._start_flow(plan, once=self._once)
        except Exception as error:
            self.tallies[plan.name].state = "failed"
            self.stop()
            raise FlowError(plan.name, explain_failure(error, self._pipeline.path)) from None

    def _may_restart(self, name: str, failure: Exception) -> bool:
        """Whether a flow failed only because the machine was busy, and not time and again."""
        if _WORKER_LATE not in str(failure):
            return False
        self._restart_counts[name] = self._restart_counts.get(name, 0) + 1
        return self._restart_counts[name] <= PIPELINE_RESTARTS_MAX

    def _start_flow(self, plan: FlowPlan, *, once: bool) -> "StreamingQuery":
        from pyspark.sql.functions import count, lit

        frames = [
            decode(self._spark.readStream.format("runnel").options(**options).load(), source)
            for source, options in zip(plan.flow.sources, plan.source_options, strict=True)
        ]
        result = plan.flow(*frames)
        _check_result(result)
        rows = encode(result, plan.flow.sink).observe(OUT_METRIC, count(lit(1)).alias(OUT_ROWS))
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", plan.name)
        writer = _writer(rows, plan, once=once)
        return writer.start()

    # --- what Spark reports

    def _take_progress(self, name: str, progress: dict[str, Any]) -> None:
        tally = self.tallies.get(name)
        if tally is not None:
            with self._lock:
                tally.add(progress, time.monotonic())

    def _take_end(self, query_id: str) -> None:
        self._reported_end.add(query_id)

    def _await_reports(self) -> None:
        """Reports come from a queue, and the last ones may still be in it."""
        ids = {str(query.id) for query in self._queries.values()}
        deadline_s = time.monotonic() + _LAST_REPORT_TIMEOUT_S
        while self._listener is not None and ids - self._reported_end and time.monotonic() < deadline_s:
            time.sleep(_LOOK_INTERVAL_S)


def _await_sources(query: "StreamingQuery") -> None:
    deadline_s = time.monotonic() + _SOURCES_TIMEOUT_S
    while query.isActive and query.status["message"] == _INITIALISING and time.monotonic() < deadline_s:
        time.sleep(_LOOK_INTERVAL_S)


def _writer(rows: "DataFrame", plan: FlowPlan, *, once: bool) -> "DataStreamWriter":
    flow = plan.flow
    writer = rows.writeStream.queryName(flow.name).outputMode(flow.mode)
    writer = writer.option("checkpointLocation", str(plan.checkpoint))
    if isinstance(flow.sink, Parquet):
        writer = writer.format("parquet").options(**plan.sink_options)
        writer = writer.partitionBy(*flow.sink.partition_by) if flow.sink.partition_by else writer
    elif flow.mode == "update":
        # Spark lets no data source in Python say that it takes updates, so each batch is written as a batch.
        writer = writer.foreachBatch(lambda batch, _id: _write_batch(batch, plan))
    else:
        writer = writer.format("runnel").options(**plan.sink_options)
    if once:
        return writer.trigger(availableNow=True)
    return writer if flow.every is None else writer.trigger(processingTime=flow.every)


def _write_batch(batch: "DataFrame", plan: FlowPlan) -> None:
    batch.write.format("runnel").options(**plan.sink_options).mode("append").save()


def _check_result(result: object) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise PipelineError(f"the function returned {type(result).__name__} and not a DataFrame")
    if not result.isStreaming:
        raise PipelineError("the function returned a DataFrame that does not come from its sources")


def _stop_query(query: "StreamingQuery") -> None:
    deadline_s = time.monotonic() + _BETWEEN_BATCHES_TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline_s:
        time.sleep(_LOOK_INTERVAL_S)
    if query.isActive:
        query.stop()


def _send_by_value(pipeline: Pipeline) -> None:
    """Functions of the file travel to workers whole, because workers cannot import the file by name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(pipeline.module)  # type: ignore[no-untyped-call]
