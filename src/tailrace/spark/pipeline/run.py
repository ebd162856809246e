"""The run of a pipeline: one streaming query for each flow, in one session.

The main thread starts the queries and checks them regularly; Spark reports progress from its own thread. A flow with a
temporary failure (see `restart`) is restarted from its checkpoint after a wait, and the other flows continue. A final
failure stops the other flows, because their output may depend on the failed one; nothing is lost, because each flow
continues from its checkpoint.

Each source needs a Python process, and starting many at once is slow on a busy machine. So a flow starts when the
flows before it have their sources. Flows that start in turn wait longer: until the flow before them has finished a
batch, so that the first results come early on a machine with few cores.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.argument import refuse_origin
from tailrace.spark.connector.base import Delivery, FlowStart
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.at_most_once import at_most_once
from tailrace.spark.pipeline.cause import explain_failure
from tailrace.spark.pipeline.checkpoint_files import write_checkpoints_quickly
from tailrace.spark.pipeline.culprit import SearchStopped, leave_out_culprits
from tailrace.spark.pipeline.delivery_note import note_delivery
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.expectation import apply_expectations
from tailrace.spark.pipeline.group_mirror import GroupCommits, GroupMirror
from tailrace.spark.pipeline.left_open import end_before_start
from tailrace.spark.pipeline.load import Pipeline
from tailrace.spark.pipeline.origin import carry_origin
from tailrace.spark.pipeline.plan import FlowPlan
from tailrace.spark.pipeline.realtime import EVERY, check_cores, check_query
from tailrace.spark.pipeline.restart import Restarts, can_pass
from tailrace.spark.pipeline.sample import Sample, sample_flow
from tailrace.spark.pipeline.source_note import note_sources
from tailrace.spark.pipeline.state_store import analyzed_plan, find_store, use_store
from tailrace.spark.pipeline.tally import OUT_METRIC, OUT_ROWS, FlowTally
from tailrace.spark.pipeline.topic_check import count_partitions
from tailrace.spark.record_place import ORIGIN
from tailrace.spark.spark_session import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_BETWEEN_BATCHES_TIMEOUT_S = 10.0
_LAST_REPORT_TIMEOUT_S = 30.0  # reports arrive within milliseconds, unless the machine is very busy
_LOOK_INTERVAL_S = 0.01
_SOURCES_TIMEOUT_S = 30.0
_TURN_TIMEOUT_S = 30.0
_INITIALISING = ("Initializing StreamExecution", "Initializing sources")  # Spark's messages, in this order

SESSION_CONFIG = {
    # With a single queue, a long batch of one flow would delay all others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stopTimeout": "30s",
}


class PipelineRun:
    """The queries of a pipeline.

    `say` gets a line for each restart, and `group` shows the progress of all flows. `restarts_max` bounds the restarts
    of a flow in a row. When `stopping` is set, what takes
    long within `check` ends, because `stop` is about to be called.
    """

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        plans: Sequence[FlowPlan],
        *,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        group: str | None = None,
        stopping: threading.Event | None = None,
        restarts_max: int | None = None,
    ) -> None:
        self.tallies = {plan.name: FlowTally(plan.name) for plan in plans}
        self._spark = spark
        self._pipeline = pipeline
        self._plans = plans
        self._say = say
        self._clock = clock
        self._stopping = stopping or threading.Event()
        self._built: dict[str, tuple[DataFrame, FlowStart]] = {}
        self._queries: dict[str, StreamingQuery] = {}
        self._restarts_max = restarts_max
        self._restarts = {plan.name: Restarts() for plan in plans}
        self._once = False
        self._waiting: deque[FlowPlan] = deque()
        self._next_turn_s = 0.0
        self._lock = threading.Lock()
        self._reported_end: set[str] = set()
        self._listener: Any = None
        self._commits = GroupCommits(plans[0].place.client if plans else {})
        self._mirror = GroupMirror(pipeline.path.stem, plans, self._commits.commit, group=group)
        _send_by_value(pipeline)

    def build(self) -> None:
        """Call the functions of all flows and check their results; raises `FlowError` for the first wrong flow.

        Nothing is started or registered, and no topic is needed. `start` uses what was built.
        """
        for plan in self._plans:
            try:
                self._built[plan.name] = self._build_rows(plan)
            except Exception as error:
                if not can_pass(error):  # else `start` tries again
                    raise FlowError(plan.name, explain_failure(error, self._pipeline.path)) from error
        self._check_cores()

    def sample(self, plan: FlowPlan, row_count: int) -> Sample:
        """Return some rows of a flow's output without starting it; raises `FlowError`."""
        try:
            return sample_flow(self._spark, plan, row_count)
        except Exception as error:
            raise FlowError(plan.name, explain_failure(error, self._pipeline.path)) from error

    def start(self, *, once: bool = False, in_turn: bool = False) -> None:
        """Start all flows; if one cannot start, stops the others and raises `FlowError`.

        With `in_turn`, starts only the first one, and `check` starts the others.
        """
        from tailrace.spark.pipeline.listener import ProgressListener

        self._listener = ProgressListener(self._take_progress, self._take_work, self._take_end)
        self._spark.streams.addListener(self._listener)
        write_checkpoints_quickly(self._spark)
        self._mirror.start()
        self._once = once
        self._restarts = {plan.name: Restarts(once, self._restarts_max) for plan in self._plans}
        self._waiting.extend(self._plans)
        self._start_next()
        while self._waiting and not in_turn:
            self._start_next()

    @property
    def is_started(self) -> bool:
        """Whether every flow has been started."""
        return not self._waiting

    def check(self, *, may_start: bool = True) -> bool:
        """Return whether any flow is running or will be; on a final failure, stops all flows and raises `FlowError`."""
        if may_start and self._waiting and self._is_next_due():
            self._start_next()
        started = self._plans[: len(self._plans) - len(self._waiting)]
        going_on = [self._check_flow(plan, may_start=may_start) for plan in started]
        return any(going_on) or not self.is_started

    def require_running(self) -> None:
        """Raise `FlowError` if a flow is waiting for its restart."""
        for tally in self.snapshot():
            if tally.state == "restarting":
                raise FlowError(tally.name, f"the duration ended before the flow was restarted: {tally.cause}")

    def stop(self) -> None:
        """Stop all flows, between two batches if possible, so that no batch is repeated."""
        stopping = [
            threading.Thread(target=_stop_query, args=(self._queries[plan.name], plan.flow.is_realtime))
            for plan in self._plans
            if plan.name in self._queries
        ]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        for plan in self._plans:
            for source in plan.flow.sources:
                source.stop_source(plan.place)
        self._await_reports()
        with self._lock:
            for tally in self.tallies.values():
                if tally.state in ("starting", "running", "restarting"):
                    tally.state = "stopped"
        if self._listener is not None:
            self._spark.streams.removeListener(self._listener)
            self._listener = None
        self._mirror.stop()
        self._commits.close()

    def snapshot(self) -> list[FlowTally]:
        """Return the numbers of all flows, in the order of the file."""
        with self._lock:
            return [self.tallies[plan.name].copy(plan.place.refused.counts()) for plan in self._plans]

    def _check_cores(self) -> None:
        """Raise `FlowError` if Spark has fewer cores on this machine than the flows in real-time mode need."""
        realtime = [plan for plan in self._plans if plan.flow.is_realtime]
        if not realtime or not is_local(str((context := self._spark.sparkContext).master)):
            return
        counts = {plan.name: count_partitions(plan, plan.place.client) for plan in realtime}
        try:
            check_cores(context.defaultParallelism, counts, has_other_flows=len(realtime) < len(self._plans))
        except PipelineError as error:
            raise FlowError(realtime[0].name, str(error)) from None

    # --- one flow

    def _start_next(self) -> None:
        """Start the next flow that waits for its turn."""
        if not self._waiting:
            return
        plan = self._waiting.popleft()
        self._next_turn_s = self._clock() + _TURN_TIMEOUT_S
        self._start_query(plan)
        if (query := self._queries.get(plan.name)) is not None:
            _await_sources(query)

    def _is_next_due(self) -> bool:
        """Return whether the last flow that was started has finished a batch, or has taken too long for it."""
        last = self._plans[len(self._plans) - len(self._waiting) - 1]
        return self.tallies[last.name].batch_count > 0 or self._clock() >= self._next_turn_s

    def _start_query(self, plan: FlowPlan) -> None:
        with self._lock:
            self._restarts[plan.name].start(self._clock())
            self.tallies[plan.name].state = "starting"
        try:
            self._queries[plan.name] = self._start_flow(plan, once=self._once)
        except Exception as error:
            self._take_failure(plan.name, error)

    def _check_flow(self, plan: FlowPlan, *, may_start: bool) -> bool:
        """Return whether a flow is running or will be, and restart it if its wait is over."""
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
            self._say(f"flow {plan.name} recovered after {away_s:.0f} s")
        return is_active

    def _take_failure(self, name: str, failure: Exception) -> None:
        """Schedule the restart of a failed flow; on a final failure, stops all flows and raises `FlowError`."""
        cause = explain_failure(failure, self._pipeline.path)
        restarts, tally = self._restarts[name], self.tallies[name]
        is_passing = can_pass(failure)
        if not is_passing and name in self._queries:
            try:
                if self._leave_out_culprits(name):
                    return
            except SearchStopped:
                self._repeat(name, cause)
                self._say(f"flow {name}: the search for the records that fail was stopped: {cause}")
                return
            except PipelineError as error:
                cause = f"{error}: {cause}"
            except Exception as error:
                is_passing = can_pass(error)
        with self._lock:
            tally.cause = cause
            wait_s = restarts.fail(self._clock()) if is_passing else None
            tally.state, tally.restart_at_s = "failed" if wait_s is None else "restarting", restarts.due_at_s
        if wait_s is not None:
            self._say(f"flow {name} failed and restarts in {wait_s:g} s: {cause}")
            return
        if is_passing and restarts.count:
            cause = f"the flow failed after {restarts.count} restarts in a row: {cause}"
        self.stop()
        raise FlowError(name, cause)

    def _leave_out_culprits(self, name: str) -> bool:
        """Restart a failed flow without the records for which its function fails; return whether there are any."""
        plan = next(plan for plan in self._plans if plan.name == name)
        found = leave_out_culprits(self._spark, plan, self._pipeline.path, self._stopping)
        for culprit in found:
            cause = explain_failure(culprit.error, self._pipeline.path)
            self._say(f"flow {name}: {culprit.record} is left out ({plan.place.errors}): {cause}")
            self._repeat(name, cause)
        return bool(found)

    def _repeat(self, name: str, cause: str) -> None:
        """Have a failed flow restarted at the next check."""
        with self._lock:
            self._restarts[name].repeat(self._clock())
            tally = self.tallies[name]
            tally.state, tally.cause, tally.restart_at_s = "restarting", cause, self._clock()

    def _start_flow(self, plan: FlowPlan, *, once: bool) -> "StreamingQuery":
        built = self._built.pop(plan.name) if plan.name in self._built else self._build_rows(plan)
        rows, start = built
        end_before_start(plan, self._say)
        start.settle()
        note_sources(plan.checkpoint, plan.places_read)
        note_delivery(plan.checkpoint, plan.flow.delivery)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", plan.name)
        use_store(rows, plan.flow.state, is_realtime=plan.flow.is_realtime)
        return _writer(rows, plan, once=once).start()

    def _build_rows(self, plan: FlowPlan) -> "tuple[DataFrame, FlowStart]":
        from pyspark.sql.functions import count, lit

        start = FlowStart(self._spark, plan.place)
        result = plan.flow(*(source.read(start) for source in plan.flow.sources))
        _check_result(result)
        named = result if plan.place.origin is None else carry_origin(result, plan.name)
        kept = apply_expectations(named, plan.flow.expectations, plan.place.rejects)
        taken = kept if plan.flow.sink.takes_origin else kept.drop(ORIGIN)
        rows = plan.flow.sink.prepare(taken, start).observe(OUT_METRIC, count(lit(1)).alias(OUT_ROWS))
        _check_mode(rows, plan.flow.mode)
        find_store(plan.flow.state, analyzed_plan(rows))  # raises if the chosen one cannot be used
        if plan.flow.is_realtime:
            check_query(rows)
        return rows, start

    # --- what Spark reports

    def _take_progress(self, name: str, progress: dict[str, Any]) -> None:
        tally = self.tallies.get(name)
        if tally is not None:
            self._take_work(str(progress.get("runId")))  # first, so that a flow whose rows count has recovered
            with self._lock:
                tally.add(progress, time.monotonic())
                self._mirror.note(name, tally.position)

    def _take_work(self, run_id: str) -> None:
        """Record that the current run of a query works; late reports of a failed run are ignored."""
        for name, query in [*self._queries.items()]:
            if str(query.runId) == run_id:
                with self._lock:
                    self.tallies[name].work()
                    self._restarts[name].work(self._clock())

    def _take_end(self, run_id: str) -> None:
        self._reported_end.add(run_id)

    def _await_reports(self) -> None:
        """Wait for the last reports, which may still be in Spark's queue."""
        ids = {str(query.runId) for query in self._queries.values()}
        deadline_s = time.monotonic() + _LAST_REPORT_TIMEOUT_S
        while self._listener is not None and ids - self._reported_end and time.monotonic() < deadline_s:
            time.sleep(_LOOK_INTERVAL_S)


def _await_sources(query: "StreamingQuery") -> None:
    deadline_s = time.monotonic() + _SOURCES_TIMEOUT_S
    while query.isActive and query.status["message"] in _INITIALISING and time.monotonic() < deadline_s:
        time.sleep(_LOOK_INTERVAL_S)


def _writer(rows: "DataFrame", plan: FlowPlan, *, once: bool) -> "DataStreamWriter":
    flow = plan.flow
    writer = rows.writeStream.queryName(flow.name).outputMode(flow.mode)
    writer = writer.option("checkpointLocation", str(plan.checkpoint))
    if flow.delivery is Delivery.AT_MOST_ONCE:
        write = partial(flow.sink.write_batch, place=plan.place)
        connect = partial(flow.sink.connect_sink, plan.place)
        writer = writer.foreachBatch(at_most_once(write, connect, flow.name, plan.checkpoint))
    else:
        writer = flow.sink.write(writer, plan.place)
    if once:
        return writer.trigger(availableNow=True)
    if flow.is_realtime:
        trigger: Any = writer.trigger  # its declared types lack this form
        realtime: DataStreamWriter = trigger(realTime=flow.every or EVERY)
        return realtime
    return writer if flow.every is None else writer.trigger(processingTime=flow.every)


def _check_result(result: object) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(result, DataFrame):
        raise PipelineError(f"the function returned {type(result).__name__}, not a DataFrame")
    if not result.isStreaming:
        raise PipelineError("the function returned a DataFrame that does not come from its sources")
    refuse_origin(result.columns, "the result")


def _check_mode(rows: "DataFrame", mode: str) -> None:
    """Raise the error with which Spark would refuse to start a query in this output mode."""
    jvm: Any = rows.sparkSession._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(rows._jdf.queryExecution().analyzed(), chosen)


def _stop_query(query: "StreamingQuery", is_realtime: bool) -> None:
    if is_realtime:  # there is no time between its batches
        _interrupt(query)
        return
    deadline_s = time.monotonic() + _BETWEEN_BATCHES_TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline_s:
        time.sleep(_LOOK_INTERVAL_S)
    _interrupt(query)


def _interrupt(query: "StreamingQuery") -> None:
    # A batch that cannot be interrupted in time ends with the session, and is repeated from the checkpoint.
    with contextlib.suppress(Exception):
        if query.isActive:
            query.stop()


def _send_by_value(pipeline: Pipeline) -> None:
    """Have functions of the file pickled by value, because workers cannot import the file by name."""
    from pyspark import cloudpickle

    if pipeline.module is None:
        return
    cloudpickle.register_pickle_by_value(pipeline.module)  # type: ignore[no-untyped-call]
