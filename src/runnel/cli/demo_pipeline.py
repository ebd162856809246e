"""The demo, with Spark: website activity through a broker and a pipeline, to topics and to Parquet files.

A broker runs in a child process. Events are published at an even pace, among them late ones and
duplicates: a few while Spark starts, and many once the flows of `examples/website.py` run over them.
At the end nothing more is published, the flows read what is left, and the files are compared with
what the broker acknowledged.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.activity import TOPICS
from runnel.cli.demo_board import DemoBoard
from runnel.cli.demo_broker import broker_process
from runnel.cli.demo_check import find_missing, read_parquet
from runnel.cli.demo_publisher import EVENTS_PER_SECOND, EVENTS_PER_SECOND_AT_FIRST, Publisher
from runnel.cli.demo_result import RESULT_TOPICS, ResultReader
from runnel.cli.pipeline import handle_signals, stop_on_signals
from runnel.client.admin import NewTopic
from runnel.client.sync_admin import Admin
from runnel.protocol.errors import ApiError
from runnel.spark.client_log import OFF, log_scope
from runnel.spark.java import find_quiet_java_home
from runnel.spark.pipeline.load import load_pipeline
from runnel.spark.pipeline.plan import FlowPlan, plan_flow
from runnel.spark.pipeline.run import PipelineRun
from runnel.spark.pipeline.spark_scope import spark_scope
from runnel.spark.pipeline.tally import FlowTally
from runnel.spark.pipeline.topic_check import check_topics

if TYPE_CHECKING:
    from runnel.cli.demo_result import Results

EXAMPLE = Path(__file__).parents[3] / "examples" / "website.py"
_PARTITIONS = 3
_CHECK_INTERVAL_S = 0.25
# A minute is too short for the second compiler, which takes more time from two cores than it gives back.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
_PAST_S = 20  # more than a window of five seconds and the lateness of ten
_STUCK_TIMEOUT_S = 300.0  # a batch takes a busy laptop less
ACTIVITY = "activity"
SESSIONS = "sessions"


def run_pipeline_demo(duration_s: float | None, master: str) -> int:
    """Run the main job until Ctrl-C or the end of the time; returns the exit status."""
    if not EXAMPLE.is_file():
        raise click.ClickException(f"the demo runs from a checkout of Runnel, with {EXAMPLE.name} in examples")
    with (
        stop_on_signals() as stopping,
        log_scope(OFF),
        tempfile.TemporaryDirectory(prefix="runnel-demo-") as folder,
        broker_process() as address,
    ):
        publisher = Publisher(address, time.time_ns(), EVENTS_PER_SECOND_AT_FIRST)
        try:
            return _Demo(address, Path(folder), publisher, stopping, duration_s).run(master)
        finally:
            publisher.stop()


class _Demo:
    """One run: everything that its steps share."""

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
        _say(f"website activity is published to a broker on {self._address}")
        pipeline = load_pipeline(EXAMPLE)
        client = {"bootstrap.servers": self._address}
        plans = [plan_flow(flow, client, self._folder / "checkpoints", self._folder) for flow in pipeline.flows]
        check_topics(plans, client)
        os.environ["JAVA_HOME"] = str(find_quiet_java_home())
        _say("starting Spark, which takes some seconds")
        with spark_scope(EXAMPLE, master=master, java_options=_JAVA_OPTIONS) as spark:
            handle_signals(self._stopping)  # Spark has set its own handler
            if self._stopping.is_set():
                return 0  # while Spark was starting
            running = PipelineRun(spark, pipeline, plans, say=_say)
            try:
                running.start()
                _say(f"flows {', '.join(running.tallies)} of {EXAMPLE.parent.name}/{EXAMPLE.name} are started")
                self._publisher.events_per_second = EVENTS_PER_SECOND
                with ResultReader(self._address) as results:
                    self._watch(running, results)
                    problem = self._catch_up(running, plans)
                    running.stop()
            finally:
                running.stop()
        return self._report(running.snapshot(), results, problem)

    def _watch(self, running: PipelineRun, results: "Results") -> None:
        """Show what happens until the time is up or somebody ends it."""
        board = DemoBoard(self._address, self._publisher, running, results)
        if self._duration_s is not None:
            self._deadline_s = time.monotonic() + self._duration_s
        with board.live():
            while not self._is_over():
                running.check()
                board.refresh()

    def _is_over(self) -> bool:
        if self._stopping.wait(_CHECK_INTERVAL_S):
            return True
        return self._deadline_s is not None and time.monotonic() >= self._deadline_s

    def _catch_up(self, running: PipelineRun, plans: Sequence[FlowPlan]) -> str | None:
        """Publish nothing more, and wait until every flow has read everything; returns why that was not awaited."""
        self._publisher.stop()
        self._stopping.clear()
        _say("nothing more is published; the flows read what is left (Ctrl-C ends it at once)")
        rows_read, stuck_at_s = -1, 0.0
        while not all(_has_read_all(running.tallies[plan.name], plan, self._publisher) for plan in plans):
            running.check()
            rows_in = sum(tally.rows_in for tally in running.snapshot())
            if rows_in > rows_read:
                rows_read, stuck_at_s = rows_in, time.monotonic() + _STUCK_TIMEOUT_S
            elif time.monotonic() >= stuck_at_s:
                return f"the flows read nothing for {_STUCK_TIMEOUT_S:g} s, and had not read everything"
            if self._stopping.wait(_CHECK_INTERVAL_S):
                return "ended before the flows had read everything"
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
            print(f"runnel demo: {line}", file=sys.stderr)
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
    print(f"runnel demo: {text}", flush=True)
