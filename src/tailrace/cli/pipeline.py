"""`tailrace pipeline`: check and run the flows of a file on Spark."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from tailrace.base.limits import PIPELINE_RESTARTS_MAX, PIPELINE_RESTARTS_ONCE_MAX
from tailrace.cli.option import (
    broker_options,
    choose_servers,
    json_option,
    read_command_config,
    read_duration_s,
    read_pairs,
)
from tailrace.cli.output import write_json
from tailrace.cli.pipeline_errors import errors
from tailrace.cli.pipeline_sample import describe_sample, write_sample
from tailrace.cli.pipeline_state import list_flows, reset, status
from tailrace.cli.pipeline_view import View
from tailrace.spark.spark_session import LOG_LEVELS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.spark.pipeline.load import Pipeline
    from tailrace.spark.pipeline.many import Running
    from tailrace.spark.pipeline.plan import FlowPlan
    from tailrace.spark.pipeline.run import PipelineRun

    Prepared = tuple[Pipeline, list[FlowPlan]]

_CHECK_INTERVAL_S = 0.25
_PATH: click.Path[Any] = click.Path(path_type=Path, dir_okay=False)


@click.group()
def pipeline() -> None:
    """Run data pipelines on Spark."""


pipeline.add_command(list_flows)
pipeline.add_command(status)
pipeline.add_command(reset)
pipeline.add_command(errors)


class FileOptions(TypedDict):
    """The options of the commands that load a file."""

    bootstrap_server: str | None
    command_config: Path | None
    master: str
    config: dict[str, str]
    checkpoint: Path | None
    output: Path | None
    log_level: str


def file_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add what every command needs to load a file: the brokers, Spark and the folders."""
    options = (
        broker_options,
        click.option("--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."),
        click.option(
            "--conf",
            "config",
            multiple=True,
            metavar="NAME=VALUE",
            callback=read_pairs,
            help="Config of Spark, such as spark.executor.memory=4g; can be repeated.",
        ),
        click.option(
            "--checkpoint",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Folder for checkpoints.  [default: .tailrace/checkpoints/FILE beside the file]",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Folder for the relative paths of files.  [default: the file's folder]",
        ),
        click.option(
            "--log-level",
            type=click.Choice(LOG_LEVELS, case_sensitive=False),
            default="off",
            show_default=True,
            help="Log level of Spark and the client, on stderr.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def end_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say when a run ends."""
    restarts = click.option(
        "--restarts",
        "restarts_max",
        callback=_read_restarts,
        metavar="N|forever",
        help="Restarts in a row of a flow whose failures are temporary, before the run ends with an error.  "
        f"[default: {PIPELINE_RESTARTS_MAX}; with --once {PIPELINE_RESTARTS_ONCE_MAX} in all]",
    )
    once = click.option("--once", is_flag=True, help="Process the records that exist now, and exit.")
    duration = click.option(
        "--for", "duration_s", callback=read_duration_s, metavar="DURATION", help="Stop after this time, such as 60s."
    )
    return duration(once(restarts(function)))


def _read_restarts(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    """Parse a number of restarts, or `forever`; a callback for click."""
    if text is None:
        return None
    if text == "forever":
        return sys.maxsize
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"{text!r} is neither a number nor forever")
    return int(text)


@pipeline.command()
@click.argument("files", nargs=-1, required=True, type=_PATH, metavar="FILE...")
@file_options
@end_options
def run(
    files: tuple[Path, ...],
    duration_s: float | None,
    once: bool,
    restarts_max: int | None,
    **given: Unpack[FileOptions],
) -> None:
    """Run the flows of each FILE until Ctrl-C or SIGTERM.

    FILE is a Python file with functions decorated by tailrace.pipeline.flow, or a YAML file with SQL queries. Each flow
    continues from its checkpoint, so a pipeline can be stopped and restarted at any time. Several files share one Spark
    application; one that fails does not stop the others.
    """
    run_files(files, duration_s, once, restarts_max, **given)


def run_files(
    files: Sequence[Path],
    duration_s: float | None,
    once: bool,
    restarts_max: int | None = None,
    load: "Callable[[Path], Pipeline] | None" = None,
    **given: Unpack[FileOptions],
) -> None:
    """Run the flows of files. `load` returns those of a file that does not exist, but by whose name they are known."""
    from tailrace.spark.pipeline.many import ManyRuns, check_names
    from tailrace.spark.pipeline.run_lock import check_not_running, run_lock

    check_names(files)
    for folder in _checkpoints(files, given["checkpoint"]).values():
        check_not_running(folder)
    with _loaded(files, load=load, **given) as session:
        from tailrace.spark.pipeline.left_open import end_removed_flows
        from tailrace.spark.pipeline.topic_check import create_sinks

        runs = session.build_runs(restarts_max)
        with ExitStack() as locks:
            for _, plans in session.prepared:
                locks.enter_context(run_lock(plans[0].checkpoint.parent))
            for loaded, plans in session.prepared if load is None else ():
                end_removed_flows(loaded, plans[0].checkpoint.parent, session.client, session.view.say)
            for _, plans in session.prepared:
                for name in create_sinks(plans, session.client):
                    session.view.say(f"created topic {name}")
            many = ManyRuns(runs, session.view.say)
            running = many if len(runs) > 1 else next(iter(runs.values()))
            _watch(running, session.view, session.stopping, duration_s=duration_s, once=once)
            many.require_success()


@pipeline.command()
@click.argument("file", type=_PATH)
@file_options
@click.option(
    "--rows",
    "row_count",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="Show this many rows of each flow's output.",
)
@json_option
def check(file: Path, row_count: int, as_json: bool, **given: Unpack[FileOptions]) -> None:
    """Check the flows of FILE without running them, and show a sample of their output.

    The file, its topics, schemas and connections are checked. The sample comes from the newest records of the sources.
    Nothing is written.
    """
    with _loaded((file,), **given, is_quiet=as_json) as session:
        (running,) = session.build_runs().values()
        ((_, plans),) = session.prepared
        samples = [running.sample(plan, row_count) for plan in plans]
    if as_json:
        write_json([describe_sample(plan, sample) for plan, sample in zip(plans, samples, strict=True)])
        return
    for plan, sample in zip(plans, samples, strict=True):
        write_sample(plan, sample)


@dataclass(frozen=True, slots=True)
class _Session:
    """Pipeline files that were loaded, with the Spark session for their flows."""

    prepared: "list[Prepared]"
    spark: "SparkSession"
    client: dict[str, str]
    view: View
    stopping: threading.Event

    def build_runs(self, restarts_max: int | None = None) -> "dict[str, PipelineRun]":
        """Return a run for each file, by its name, whose flows have been checked."""
        from tailrace.spark.pipeline.run import PipelineRun

        runs = {}
        for number, (pipeline, plans) in enumerate(self.prepared):
            # In a session, the names of queries, which are those of flows, are unique.
            spark = self.spark.newSession() if number else self.spark
            running = PipelineRun(
                spark, pipeline, plans, say=self.view.say, stopping=self.stopping, restarts_max=restarts_max
            )
            running.build()
            runs[pipeline.path.name] = running
        return runs


@contextmanager
def _loaded(
    files: Sequence[Path],
    *,
    is_quiet: bool = False,
    load: "Callable[[Path], Pipeline] | None" = None,
    **given: Unpack[FileOptions],
) -> Iterator[_Session]:
    """Load and check files, and start Spark; most files are loaded first, because Spark takes seconds to start."""
    from tailrace.spark.client_log import log_scope
    from tailrace.spark.pipeline.load import NeedsSession, load_pipeline
    from tailrace.spark.pipeline.many import check_places
    from tailrace.spark.pipeline.spark_scope import spark_scope

    with stop_on_signals() as stopping, log_scope(given["log_level"]):
        client = _client_settings(given["bootstrap_server"], given["command_config"])
        view = View(f"{', '.join(file.name for file in files)} on {client['bootstrap.servers']}")
        folders = _checkpoints(files, given["checkpoint"])

        def prepare() -> "list[Prepared]":
            found = [_prepare((load or load_pipeline)(file), client, folders[file], given["output"]) for file in files]
            check_places([plan for _, plans in found for plan in plans])
            return found

        prepared = None
        with suppress(NeedsSession):
            prepared = prepare()
        if not is_quiet:
            view.say("starting Spark, which takes some seconds")
        scope = spark_scope(
            files[0],
            master=given["master"],
            log_level=given["log_level"],
            config=given["config"],
            beside=files[1:],
        )
        with scope as spark:
            handle_signals(stopping)  # Spark has replaced the handler
            yield _Session(prepared or prepare(), spark, client, view, stopping)


def _checkpoints(files: Sequence[Path], chosen: Path | None) -> dict[Path, Path]:
    """Return the folder for the checkpoints of each file; several files have folders in the chosen one."""
    from tailrace.spark.pipeline.plan import checkpoints_of

    if chosen is None or len(files) == 1:
        return {file: checkpoints_of(file, chosen) for file in files}
    return {file: checkpoints_of(file, chosen / file.stem) for file in files}


def _prepare(loaded: "Pipeline", client: Mapping[str, str], folder: Path, output: Path | None) -> "Prepared":
    from tailrace.spark.pipeline.plan import plan_flow
    from tailrace.spark.pipeline.topic_check import check_topics

    target = Path(os.path.abspath(output)) if output else loaded.path.parent
    plans = [plan_flow(flow, client, folder, target) for flow in loaded.flows]
    check_topics(plans, client)
    return loaded, plans


def _watch(running: "Running", view: View, stopping: threading.Event, *, duration_s: float | None, once: bool) -> None:
    """Run the flows until they end, the duration has passed, or a signal arrives."""
    if stopping.is_set():
        return  # a signal arrived while Spark was starting
    try:
        running.start(once=once)
        deadline_s = None if duration_s is None else time.monotonic() + duration_s
        with view.live(running):
            while not _is_over(stopping, deadline_s) and running.check():
                view.refresh()
        running.check(may_start=False)  # a flow may have failed since the last check
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
    """Provide an event that Ctrl-C and SIGTERM set during the block; a second Ctrl-C ends the program at once."""
    stopping = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handle_signals(stopping)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def handle_signals(stopping: threading.Event) -> None:
    """Install handlers that set the event, in place of any others."""

    def stop(number: int, _frame: FrameType | None) -> Any:
        if stopping.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping.set()
        print(f"tailrace: stopping on {signal.Signals(number).name}", file=sys.stderr)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
