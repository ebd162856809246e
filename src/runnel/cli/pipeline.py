"""`runnel pipeline`: data pipelines on Spark, from a Python file."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from runnel.cli.option import broker_options, choose_servers, read_command_config, read_duration_s
from runnel.cli.pipeline_view import View
from runnel.spark.spark_session import LOG_LEVELS

if TYPE_CHECKING:
    from runnel.spark.pipeline.load import Pipeline
    from runnel.spark.pipeline.plan import FlowPlan
    from runnel.spark.pipeline.run import PipelineRun

    Prepared = tuple[Pipeline, list[FlowPlan]]

_CHECK_INTERVAL_S = 0.25


@click.group()
def pipeline() -> None:
    """Run data pipelines on Spark."""


@pipeline.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@broker_options
@click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Any Spark master.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where flows keep their positions and state.  [default: .runnel/checkpoints/FILE beside the file]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where relative paths of sinks begin.  [default: the file's folder]",
)
@click.option("--for", "duration_s", callback=read_duration_s, metavar="DURATION", help="Stop after this, such as 60s.")
@click.option("--once", is_flag=True, help="Read what is there now, and end.")
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS, case_sensitive=False),
    default="off",
    show_default=True,
    help="What Spark and the client log on stderr.",
)
def run(
    file: Path,
    bootstrap_server: str | None,
    command_config: Path | None,
    master: str,
    checkpoint: Path | None,
    output: Path | None,
    duration_s: float | None,
    once: bool,
    log_level: str,
) -> None:
    """Run the flows of FILE until Ctrl-C or SIGTERM.

    FILE is a Python file of functions with the decorator flow of runnel.pipeline. Each flow goes on
    where its checkpoint says, so a pipeline can be stopped and started at any time.
    """
    from runnel.spark.client_log import log_scope
    from runnel.spark.pipeline.load import NeedsSession, load_pipeline
    from runnel.spark.pipeline.run import PipelineRun
    from runnel.spark.pipeline.spark_scope import spark_scope

    with stop_on_signals() as stopping, log_scope(log_level):
        client = _client_settings(bootstrap_server, command_config)
        view = View(f"{file.name} on {client['bootstrap.servers']}")

        def prepare() -> "Prepared":
            return _prepare(load_pipeline(file), client, checkpoint, output, view)

        prepared = None
        with suppress(NeedsSession):
            prepared = prepare()
        view.say("starting Spark, which takes some seconds")
        with spark_scope(file, master=master, log_level=log_level) as spark:
            handle_signals(stopping)  # Spark has set its own handler
            loaded, plans = prepared or prepare()
            running = PipelineRun(spark, loaded, plans, say=view.say)
            _watch(running, view, stopping, duration_s=duration_s, once=once)


def _prepare(
    loaded: "Pipeline", client: Mapping[str, str], checkpoint: Path | None, output: Path | None, view: View
) -> "Prepared":
    from runnel.spark.pipeline.plan import checkpoints_of, plan_flow
    from runnel.spark.pipeline.topic_check import check_topics

    folder = Path(os.path.abspath(checkpoint)) if checkpoint else checkpoints_of(loaded.path)
    target = Path(os.path.abspath(output)) if output else loaded.path.parent
    plans = [plan_flow(flow, client, folder, target) for flow in loaded.flows]
    for name in check_topics(plans, client):
        view.say(f"created topic {name}")
    return loaded, plans


def _watch(
    running: "PipelineRun", view: View, stopping: threading.Event, *, duration_s: float | None, once: bool
) -> None:
    """Run the flows until they end, the time is up, or somebody stops them."""
    if stopping.is_set():
        return  # while Spark was starting
    try:
        running.start(once=once)
        deadline_s = None if duration_s is None else time.monotonic() + duration_s
        with view.live(running):
            while not _is_over(stopping, deadline_s) and running.check():
                view.refresh()
        running.check(may_start=False)  # a flow that failed a moment ago was not stopped, but failed
        if not stopping.is_set():
            running.require_running()
    finally:
        running.stop()
        view.summarise(running.snapshot())


def _is_over(stopping: threading.Event, deadline_s: float | None) -> bool:
    return stopping.wait(_CHECK_INTERVAL_S) or (deadline_s is not None and time.monotonic() >= deadline_s)


def _client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, str]:
    settings: Mapping[str, str] = {} if command_config is None else read_command_config(command_config)
    servers = choose_servers(bootstrap_server, settings)
    return {name: text for name, text in settings.items() if name not in ("bootstrap.servers", "security.protocol")} | {
        "bootstrap.servers": servers
    }


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set while the block runs; a second Ctrl-C ends the program at once."""
    stopping = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handle_signals(stopping)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def handle_signals(stopping: threading.Event) -> None:
    """Let the signals set the event, whoever handled them before."""

    def stop(number: int, _frame: FrameType | None) -> Any:
        if stopping.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping.set()
        print(f"runnel: stopping on {signal.Signals(number).name}", file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
