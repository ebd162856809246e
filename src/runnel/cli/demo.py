"""The demo, `make demo`: live website activity through a broker, shown while it runs.

A broker runs in a child process, as a user would start it. Events are published with
compression, read back from all partitions, and compared with what the broker acknowledged:
every acknowledged event must be read, once for each time it was written.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import click

from runnel.base.event_loop import new_event_loop
from runnel.cli.activity import TOPICS, Activity
from runnel.cli.error import explain
from runnel.cli.main import run_command
from runnel.cli.scoreboard import Scoreboard
from runnel.client.admin import Admin, NewTopic
from runnel.client.cluster import Cluster
from runnel.client.offset import EARLIEST
from runnel.client.reader import Reader
from runnel.client.writer import Writer
from runnel.protocol.errors import ApiError
from runnel.records.compression import Compression

_EVENTS_PER_SECOND = 2_000
_TICK_S = 0.1
_PARTITIONS = 3
_LINE_INTERVAL_S = 3.0
_REFRESH_INTERVAL_S = 0.25
_CATCH_UP_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "": 1}


def _read_duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 60s or 2m")
    return float(match[1]) * _UNITS_S[match[2]]


@click.command()
@click.option("--for", "duration_s", callback=_read_duration, metavar="DURATION", help="End after this, such as 60s.")
def demo(duration_s: float | None) -> None:
    """Publish live website activity, read it back, and show both until Ctrl-C."""
    board = Scoreboard()
    with _broker_process() as address, asyncio.Runner(loop_factory=new_event_loop) as runner:
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(_run(address, board, duration_s))
    print(f"runnel demo: {board.summary()}")
    if board.lag:
        board.problems.append(f"{board.lag} acknowledged events were not read back")
    for problem in board.problems[:10]:
        print(f"runnel demo: {problem}", file=sys.stderr)
    if board.problems:
        sys.exit(1)
    print("runnel demo: every acknowledged event was read back")


@contextmanager
def _broker_process() -> Iterator[str]:
    """A broker of its own, in a temporary folder, on a free port."""
    with tempfile.TemporaryDirectory(prefix="runnel-demo-") as folder:
        log = Path(folder) / "broker.log"
        command = [sys.executable, "-m", "runnel.cli.main", "start", "--data", folder + "/data"]
        with log.open("w") as log_file:
            # In a session of its own, so that Ctrl-C reaches this process alone, which then stops it.
            process = subprocess.Popen(
                [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log_file, start_new_session=True
            )
        try:
            ready = process.stdout.readline().decode() if process.stdout else ""
            if " ready on " not in ready:
                raise click.ClickException(f"the broker did not start: {log.read_text().strip()}")
            yield ready.rpartition(" ")[2].strip()
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


async def _run(address: str, board: Scoreboard, duration_s: float | None) -> None:
    async with Cluster(address, client_id="runnel-demo") as cluster:
        await _create_topics(cluster)
        reads = [_read(cluster, topic, board) for topic in TOPICS]
        async with _background(board, *reads, _show(board, address)):
            writer = Writer(cluster, compression=Compression.ZSTD, linger_ms=20, on_delivery=board.delivered)
            async with writer:
                try:
                    await _publish(writer, duration_s)
                except asyncio.CancelledError:
                    await writer.flush()
                    await _catch_up(board)
                    raise
            await _catch_up(board)


async def _create_topics(cluster: Cluster) -> None:
    outcomes = await Admin(cluster).create_topics([NewTopic(topic, _PARTITIONS) for topic in TOPICS])
    for outcome in outcomes.values():
        if isinstance(outcome, ApiError):
            raise outcome


async def _publish(writer: Writer, duration_s: float | None) -> None:
    """Events at an even pace, until the time is up or somebody ends it."""
    activity = Activity(seed=time.time_ns())
    began_s = time.monotonic()
    published = 0
    while duration_s is None or time.monotonic() - began_s < duration_s:
        due = int((time.monotonic() - began_s) * _EVENTS_PER_SECOND) - published
        published += due
        for event in activity.events(time.time_ns() // 1_000_000, due):
            await writer.send(event.topic, event.key, event.value, event.headers, timestamp_ms=event.timestamp_ms)
        await asyncio.sleep(_TICK_S)


async def _catch_up(board: Scoreboard) -> None:
    """Wait until everything acknowledged is read back, or for as long as that may take."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CATCH_UP_TIMEOUT_S):
            while board.lag:  # noqa: ASYNC110 - the board is plain data and calls nobody
                await asyncio.sleep(_TICK_S)


async def _read(cluster: Cluster, topic: str, board: Scoreboard) -> None:
    async with Reader(cluster, topic) as reader:
        await reader.seek_to_time(EARLIEST)
        async for fetched in reader:
            board.fetched(fetched)


async def _show(board: Scoreboard, address: str) -> None:
    """Keep the terminal up to date, or print a line from time to time."""
    if not sys.stdout.isatty():
        while True:
            await asyncio.sleep(_LINE_INTERVAL_S)
            print(board.line(), flush=True)
    from rich.live import Live

    with Live(board.render(address), auto_refresh=False, transient=True) as live:
        while True:
            await asyncio.sleep(_REFRESH_INTERVAL_S)
            live.update(board.render(address), refresh=True)


@asynccontextmanager
async def _background(board: Scoreboard, *runs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these while the block runs; one that fails is a problem of the demo."""
    tasks = [asyncio.get_running_loop().create_task(run) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ending in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ending, Exception):
                board.problems.append(explain(ending) or repr(ending))


if __name__ == "__main__":
    sys.exit(run_command(demo))
