"""The demo without Spark: website activity through a broker.

Events are published with compression, read back from all partitions, and compared with the acknowledgements: every
acknowledged event must be read exactly once.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tailrace.base.event_loop import new_event_loop
from tailrace.cli.demo.activity import TOPICS, Activity
from tailrace.cli.demo.broker import broker_process
from tailrace.cli.demo.scoreboard import Scoreboard
from tailrace.cli.error import explain
from tailrace.client.admin.core import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.reader import Reader
from tailrace.client.offset import EARLIEST
from tailrace.client.produce.writer import Writer
from tailrace.protocol.errors import ApiError
from tailrace.records.compression import Compression

_EVENTS_PER_SECOND = 2_000
_TICK_S = 0.1
_PARTITIONS = 3
_LINE_INTERVAL_S = 3.0
_REFRESH_INTERVAL_S = 0.25
_CATCH_UP_TIMEOUT_S = 30.0


def run_plain(duration_s: float | None) -> int:
    """Publish and read events until Ctrl-C or for the duration; returns the exit status."""
    board = Scoreboard()
    with broker_process() as address, asyncio.Runner(loop_factory=new_event_loop) as runner:
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(_run(address, board, duration_s))
    print(f"tailrace demo: {board.summary()}")
    if board.lag:
        board.problems.append(f"{board.lag} acknowledged events were not read back")
    for problem in board.problems[:10]:
        print(f"tailrace demo: {problem}", file=sys.stderr)
    if board.problems:
        return 1
    print("tailrace demo: every acknowledged event was read back")
    return 0


async def _run(address: str, board: Scoreboard, duration_s: float | None) -> None:
    async with Cluster(address, client_id="tailrace-demo") as cluster:
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
    """Publish events at an even rate, for the duration or until cancelled."""
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
    """Wait until all acknowledged events are read back, with a timeout."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CATCH_UP_TIMEOUT_S):
            while board.lag:  # noqa: ASYNC110 - the scoreboard is plain data and signals nothing
                await asyncio.sleep(_TICK_S)


async def _read(cluster: Cluster, topic: str, board: Scoreboard) -> None:
    async with Reader(cluster, topic) as reader:
        await reader.seek_to_time(EARLIEST)
        async for fetched in reader:
            board.fetched(fetched)


async def _show(board: Scoreboard, address: str) -> None:
    """Update the live table, or print lines in a pipe."""
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
    """Run coroutines during the block; an error of one is a problem of the demo."""
    tasks = [asyncio.get_running_loop().create_task(run) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ending in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ending, Exception):
                board.problems.append(explain(ending) or repr(ending))
