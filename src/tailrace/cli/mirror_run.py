"""The run of a mirror: the rounds in a Spark session, and the lines that it prints."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tailrace.cli.pipeline import handle_signals, stop_on_signals
from tailrace.spark.client_log import log_scope
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.run import MirrorRun, on_spark
from tailrace.spark.mirror.state import TopicStatus
from tailrace.spark.pipeline.spark_scope import spark_scope


def run_mirror(
    options: MirrorOptions,
    *,
    master: str,
    config: Mapping[str, str],
    log_level: str,
    duration_s: float | None,
    once: bool,
) -> None:
    """Run a mirror until a signal arrives, the duration has passed, or with `once` all is copied."""
    with stop_on_signals() as stopping, log_scope(log_level):
        running = MirrorRun(options, say)
        try:
            running.start(once=once)  # before Spark, which takes some seconds to start
            say(f"{options.name}: starting Spark, which takes some seconds")
            with spark_scope(Path("mirror"), master=master, log_level=log_level, config=config) as spark:
                handle_signals(stopping)  # Spark has replaced the handler
                ends_at_s = None if duration_s is None else time.monotonic() + duration_s

                def is_over(wait_s: float) -> bool:
                    return stopping.wait(wait_s) or (ends_at_s is not None and time.monotonic() >= ends_at_s)

                running.run(on_spark(spark), is_over, once=once)
        finally:
            statuses = dict(running.mirror.statuses)
            running.close()
            for topic in sorted(statuses):
                say(describe(statuses[topic]))


def say(text: str) -> None:
    """Print a line on stderr, where a pipe does not take it for output."""
    print(f"tailrace: {text}", file=sys.stderr, flush=True)


def describe(status: TopicStatus) -> str:
    """Return the line of a topic at the end of a run."""
    name = status.topic if status.copy in ("", status.topic) else f"{status.topic} -> {status.copy}"
    parts = [f"{status.record_count} records copied", f"{status.behind} offsets behind"]
    if status.lost:
        parts.append(f"{status.lost} offsets deleted before they were copied")
    if status.error:
        parts.append(status.error)
    return f"{name}: {', '.join(parts)}"
