"""Running a pipeline: one streaming query for each flow, in one session.

The main thread starts the queries and asks from time to time what became of them; Spark reports
progress from a thread of its own. A flow that fails for a reason that can pass (`restart` says which)
is started again from its checkpoint after a while, and the others run on. A flow that cannot go on
ends the others, because what they write may depend on it; nothing is lost by that, since each goes on
from its checkpoint.

Each source is a Python process, and so many at once are slow to start on a busy machine. So the next
flow starts when those before it have their sources.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runnel.spark.pipeline.cause import explain_failure
from runnel.spark.pipeline.endpoint import Parquet
from runnel.spark.pipeline.error import FlowError, PipelineError
from runnel.spark.pipeline.frame import decode, encode
from runnel.spark.pipeline.load import Pipeline
from runnel.spark.pipeline.plan import FlowPlan
from runnel.spark.pipeline.restart import Restarts, can_pass
from runnel.spark.pipeline.tally import OUT_METRIC, OUT_ROWS, FlowTally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_BETWEEN_BATCHES_TIMEOUT_S = 10.0
_LAST_REPORT_TIMEOUT_S = 30.0  # they come within milliseconds, unless the machine is very busy
_LOOK_INTERVAL_S = 0.01
_SOURCES_TIMEOUT_S = 30.0
_INITIALISING = "Initializing sources"  # as Spark says it

SESSION_CONFIG = {
    # Flows take turns: with one queue, a long batch of one would hold up all others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stopTimeout": "30s",
}


class PipelineRun:
    """The queries of a pipeline, from their start to their end. `say` is given a line for each restart."""

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        plans: Sequence[FlowPlan],
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tallies = {plan.name: FlowTally(plan.name) for plan in plans}
        self._spark = spark
        self._pipeline = pipeline
        self._plans = plans
        self._say = say
        self._clock = clock
        self._queries: dict[str, StreamingQuery] = {}
        self._restarts = {plan.name: Restarts() for plan in plans}
        self._once = False
        self._lock = threading.Lock()
        self._reported_end: set[str] = set()
        self._listener: Any = None
        _send_by_value(pipeline)

    def start(self, *, once: bool = False) -> None:
        """Start every flow; raises `FlowError` for one that cannot be, when none is left running."""
        from runnel.spark.pipeline.listener import ProgressListener

        self._listener = ProgressListener(self._take_progress, self._take_work, self._take_end)
        self._spark.streams.addListener(self._listener)
        self._once = once
        self._restarts = {plan.name: Restarts(is_once=once) for plan in self._plans}
        for plan in self._plans:
            self._start_query(plan)
            if (query := self._queries.get(plan.name)) is not None:
                _await_sources(query)

    def check(self, *, may_start: bool = True) -> bool:
        """Whether any flow is running or will be; raises `FlowError` when one cannot go on, and ends the others."""
        going_on = [self._check_flow(plan, may_start=may_start) for plan in self._plans]
        return any(going_on)

    def require_running(self) -> None:
        """Raise `FlowError` if a flow waits to be started again."""
        for tally in self.snapshot():
            if tally.state == "restarting":
                raise FlowError(tally.name, f"the time was over before the flow could be started again: {tally.cause}")

    def stop(self) -> None:
        """End every flow, where it can be between two batches, so that none has to be done again."""
        stopping = [threading.Thread(target=_stop_query, args=(query,)) for query in self._queries.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self._await_reports()
        with self._lock:
            for tally in self.tallies.values():
                if tally.state in ("starting", "running", "restarting"):
                    tally.state = "stopped"
        if self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._listener = None

    def snapshot(self) -> list[FlowTally]:
        """The numbers of every flow, in the order of the file."""
        with self._lock:
            return [self.tallies[plan.name].copy() for plan in self._plans]

    # --- one flow

    def _start_query(self, plan: FlowPlan) -> None:
        with self._lock:
            self._restarts[plan.name].start(self._clock())
            self.tallies[plan.name].state = "starting"
        try:
            self._queries[plan.name] = self._start_flow(plan, once=self._once)
        except Exception as error:
            self._take_failure(plan.name, error)

    def _check_flow(self, plan: FlowPlan, *, may_start: bool) -> bool:
        """Whether a flow is running or will be. One whose wait is over is started again."""
        restarts, tally = self._restarts[plan.name], self.tallies[plan.name]
        if restarts.due_at_s is not None:
            if may_start and self._clock() >= restarts.due_at_s:
                self._start_query(plan)
            return True
        query = self._queries[plan.name]
        is_active = query.isActive
        failure = None if is_active else query.exception()
        if failure is not None:
            self._take_failure(plan.name, failure)
            return True
        with self._lock:
            if not is_active:
                tally.state = "finished"
            away_s = restarts.back_after_s()
            if away_s is not None:
                tally.cause = ""
        if away_s is not None:
            self._say(f"flow {plan.name} is back after {away_s:.0f} s")
        return is_active

    def _take_failure(self, name: str, failure: Exception) -> None:
        """Have a flow wait for its restart; raises `FlowError` if it cannot go on, when all others have ended."""
        cause = explain_failure(failure, self._pipeline.path)
        restarts, tally = self._restarts[name], self.tallies[name]
        is_passing = can_pass(failure)
        with self._lock:
            tally.cause = cause
            wait_s = restarts.fail(self._clock()) if is_passing else None
            tally.state, tally.restart_at_s = "failed" if wait_s is None else "restarting", restarts.due_at_s
        if wait_s is not None:
            self._say(f"flow {name} failed and is started again in {wait_s:g} s: {cause}")
            return
        if is_passing:
            cause = f"started again {restarts.count} times in a row, and failed each time: {cause}"
        self.stop()
        raise FlowError(name, cause)

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
            self._take_work(str(progress.get("runId")))

    def _take_work(self, run_id: str) -> None:
        """The newest run of a query works; the last reports of a run that failed may come after its restart."""
        for name, query in [*self._queries.items()]:
            if str(query.runId) == run_id:
                with self._lock:
                    self.tallies[name].work()
                    self._restarts[name].work(self._clock())

    def _take_end(self, run_id: str) -> None:
        self._reported_end.add(run_id)

    def _await_reports(self) -> None:
        """Reports come from a queue, and the last ones may still be in it."""
        ids = {str(query.runId) for query in self._queries.values()}
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
    # A batch that cannot be interrupted in time ends with the session, and is done again from its checkpoint.
    with contextlib.suppress(Exception):
        if query.isActive:
            query.stop()


def _send_by_value(pipeline: Pipeline) -> None:
    """Functions of the file travel to workers whole, because workers cannot import the file by name."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(pipeline.module)  # type: ignore[no-untyped-call]
