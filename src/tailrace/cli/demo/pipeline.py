"""The demo with Spark: website activity through a broker and a pipeline, to topics and Parquet files.

A broker runs in a child process. Events are published at an even rate, some of them late or duplicated: at a low rate
while Spark starts, and at a high one when the flows of `example/website.py` run. At the end, publishing stops, the
flows read the remaining events, and the files are compared with the acknowledged events.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.cli.demo.activity import TOPICS
from tailrace.cli.demo.board import DemoBoard
from tailrace.cli.demo.broker import broker_process
from tailrace.cli.demo.check import find_missing, read_parquet
from tailrace.cli.demo.publisher import EVENTS_PER_SECOND, EVENTS_PER_SECOND_AT_FIRST, Publisher
from tailrace.cli.demo.result import RESULT_TOPICS, ResultReader
from tailrace.cli.pipeline import handle_signals, stop_on_signals
from tailrace.client.admin.core import NewTopic
from tailrace.client.admin.sync import Admin
from tailrace.protocol.errors import ApiError
from tailrace.spark.client_log import OFF, log_scope
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import FlowPlan, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.spark_scope import spark_scope
from tailrace.spark.pipeline.tally import FlowTally
from tailrace.spark.pipeline.topic_check import check_topics, create_sinks

if TYPE_CHECKING:
    from tailrace.cli.demo.result import Results

EXAMPLE = Path(__file__).parent / "example" / "website.py"
_PARTITIONS = 3
_CHECK_INTERVAL_S = 0.25
# In a run of a minute, these cost two cores more time than they save: the optimising compiler, garbage collection in
# threads of its own, and the verification of Spark's classes.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_PAST_S = 20  # longer than a window (5 s) and the allowed lateness (10 s)
_STUCK_TIMEOUT_S = 300.0  # a batch is faster even on a busy laptop
ACTIVITY = "activity"
SESSIONS = "sessions"


def run_pipeline_demo(duration_s: float | None, master: str) -> int:
    """Run the demo until Ctrl-C or for the duration; returns the exit status."""
    with (
        stop_on_signals() as stopping,
        log_scope(OFF),
        tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder,
        broker_process() as address,
    ):
        publisher = Publisher(address, time.time_ns(), EVENTS_PER_SECOND_AT_FIRST)
        try:
            return _Demo(address, Path(folder), publisher, stopping, duration_s).run(master)
        finally:
            publisher.stop()


class _Demo:
    """The state of one run."""

    def __init__(
        self, address: str, folder: Path, publisher: Publisher, stopping: threading.Event, duration_s: float | None
    ) -> None:
        self._address = address
        self._folder = folder
        self._publisher = publisher
        self._stopping = stopping
        self._duration_s = duration_s
        self._deadline_s: float | None = None

    def run(self, master: str) -> int:
        _create_topics(self._address)
        self._publisher.publish_past(_PAST_S)
        self._publisher.start()
        _say(f"publishing website activity to a broker on {self._address}")
        pipeline = load_pipeline(EXAMPLE)
        client = {"bootstrap.servers": self._address}
        plans = [plan_flow(flow, client, self._folder / "checkpoints", self._folder) for flow in pipeline.flows]
        check_topics(plans, client)
        _say("starting Spark, which takes some seconds")
        with spark_scope(EXAMPLE, master=master, java_options=_JAVA_OPTIONS) as spark:
            handle_signals(self._stopping)  # Spark has replaced the handler
            if self._stopping.is_set():
                return 0  # a signal arrived while Spark was starting
            running = PipelineRun(spark, pipeline, plans, say=_say)
            running.build()
            create_sinks(plans, client)
            try:
                running.start(in_turn=True)
                _say(f"flows {', '.join(running.tallies)} of {EXAMPLE.name} start one after the other")
                with ResultReader(self._address) as results:
                    self._watch(running, results)
                    problem = self._catch_up(running, plans)
                    running.stop()
            finally:
                running.stop()
        return self._report(running.snapshot(), results, problem)

    def _watch(self, running: PipelineRun, results: "Results") -> None:
        """Display the progress for the duration, or until a signal arrives."""
        board = DemoBoard(self._address, self._publisher, running, results)
        if self._duration_s is not None:
            self._deadline_s = time.monotonic() + self._duration_s
        with board.live():
            while not self._is_over():
                running.check()
                if running.is_started:
                    self._publisher.events_per_second = EVENTS_PER_SECOND
                board.refresh()

    def _is_over(self) -> bool:
        if self._stopping.wait(_CHECK_INTERVAL_S):
            return True
        return self._deadline_s is not None and time.monotonic() >= self._deadline_s

    def _catch_up(self, running: PipelineRun, plans: Sequence[FlowPlan]) -> str | None:
        """Stop publishing and wait until all flows have read all events; returns the reason if they did not."""
        self._publisher.stop()
        self._stopping.clear()
        _say("publishing has stopped; the flows read the remaining events (Ctrl-C ends the demo at once)")
        rows_read, stuck_at_s = -1, 0.0
        while not all(_has_read_all(running.tallies[plan.name], plan, self._publisher) for plan in plans):
            running.check()
            rows_in = sum(tally.rows_in for tally in running.snapshot())
            if rows_in > rows_read:
                rows_read, stuck_at_s = rows_in, time.monotonic() + _STUCK_TIMEOUT_S
            elif time.monotonic() >= stuck_at_s:
                return f"the flows made no progress for {_STUCK_TIMEOUT_S:g} s and have not read all events"
            if self._stopping.wait(_CHECK_INTERVAL_S):
                return "interrupted before the flows had read all events"
        return None

    def _report(self, tallies: Sequence[FlowTally], results: "Results", problem: str | None) -> int:
        publisher = self._publisher
        _say(
            f"{publisher.total:,} events in: "
            + ", ".join(f"{publisher.acknowledged[topic]:,} {topic}" for topic in TOPICS)
            + f"; {publisher.late_count:,} of them late, {publisher.duplicate_count:,} duplicates"
        )
        for tally in tallies:
            _say(
                f"flow {tally.name}: {tally.rows_in:,} rows in, {tally.rows_out:,} rows out, "
                f"{tally.rows_late:,} late and {tally.rows_duplicate:,} duplicate rows left out"
            )
        for topic in RESULT_TOPICS:
            _say(f"topic {topic}: {results.counts[topic]:,} rows read back")
        for name in (SESSIONS, ACTIVITY):
            file_count, rows = read_parquet(self._folder / name)
            _say(f"parquet {name}: {0 if rows is None else rows.num_rows:,} rows read back from {file_count:,} files")
        problems = [*publisher.problems, *find_missing(rows, publisher.ends)]
        if problem is not None:
            problems.append(problem)
        for line in problems[:10]:
            print(f"tailrace demo: {line}", file=sys.stderr)
        if problems:
            return 1
        _say("every acknowledged event was read")
        return 0


def _has_read_all(tally: FlowTally, plan: FlowPlan, publisher: Publisher) -> bool:
    topics = {name for _, name in plan.topics_read}
    return tally.has_reached({partition: end for partition, end in publisher.ends.items() if partition.topic in topics})


def _create_topics(address: str) -> None:
    with Admin(address) as admin:
        outcomes = admin.create_topics([NewTopic(topic, _PARTITIONS) for topic in TOPICS])
    for outcome in outcomes.values():
        if isinstance(outcome, ApiError):
            raise outcome


def _say(text: str) -> None:
    print(f"tailrace demo: {text}", flush=True)
