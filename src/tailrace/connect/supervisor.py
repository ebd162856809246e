"""One connector that runs: its Spark application is started, watched, and started again if it dies."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable

from tailrace.client.backoff import Backoff
from tailrace.client.error import ClientError
from tailrace.connect.job import Event, Job, Report
from tailrace.connect.plugin.error import ConfigError
from tailrace.protocol.errors import ApiError

_log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "tailrace.connect.application")
STOP_TIMEOUT_S = 60.0
RESTART_BACKOFF = Backoff(1_000, 60_000)
_LINE_BYTES_MAX = 1024 * 1024
_LINES_KEPT = 40
"""The last lines that an application has written are part of its trace if it ends without a report."""

Note = Callable[[Report], Awaitable[None]]


class Supervisor:
    """Runs the application of a connector until it is stopped or cannot go on. `note` takes each report."""

    def __init__(self, name: str, make_job: Callable[[], Awaitable[Job]], note: Note) -> None:
        self.name = name
        self._make_job = make_job
        self._note = note
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def process_id(self) -> int | None:
        """The id of the application's process, while there is one."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def start(self) -> None:
        """Start to run."""
        self._task = asyncio.create_task(self._run(), name=f"connector {self.name}")

    async def stop(self) -> None:
        """Stop the application between two batches, and wait until it has ended."""
        self._is_stopping = True
        if self._task is None:
            return
        if self.process_id is None:  # it is being started, or waits to be started again
            self._task.cancel()
        elif self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        await asyncio.wait([self._task], timeout=STOP_TIMEOUT_S)
        if not self._task.done():
            _log.warning("the application of connector %s did not stop within %g s", self.name, STOP_TIMEOUT_S)
            self._kill()
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        failure_count = 0
        while not self._is_stopping:
            try:
                last = await self._run_once()
            except ConfigError as error:
                last = Report(Event.FAILED, str(error))
            except (OSError, ApiError, ClientError) as error:
                last = Report(Event.LOST, f"the Spark application cannot be started: {error}")
            except Exception as error:  # a bug must not leave a connector without an application
                _log.exception("the application of connector %s could not be watched", self.name)
                last = Report(Event.LOST, f"{type(error).__name__}: {error}")
            if last is None or self._is_stopping:
                return
            if last.event is Event.FAILED:
                _log.error("connector %s failed: %s", self.name, last.cause)
                await self._note(last)
                return
            failure_count = 1 if last.rows else failure_count + 1
            wait_s = RESTART_BACKOFF.wait_s(failure_count)
            _log.warning("connector %s restarts in %.0f s: %s", self.name, wait_s, last.cause)
            await self._note(Report(Event.RESTARTING, last.cause))
            await asyncio.sleep(wait_s)

    async def _run_once(self) -> Report | None:
        """Run an application; returns why it has ended, or None if it was told to."""
        job = await self._make_job()
        process = self._process = await asyncio.create_subprocess_exec(
            *COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - they are pipes
        assert process.stderr is not None  # noqa: S101
        lines: deque[str] = deque(maxlen=_LINES_KEPT)
        reading = asyncio.create_task(_keep(process.stderr, lines))
        last: Report | None = None
        try:
            process.stdin.write(job.to_line().encode())
            if self._is_stopping:
                process.stdin.close()
            async for line in process.stdout:
                last = Report.of_line(line.decode())
                if last.event in (Event.RUNNING, Event.RESTARTING):
                    await self._note(last)
            status = await process.wait()
            await reading
        finally:
            self._kill()
            reading.cancel()
        if last is not None and last.event in (Event.FAILED, Event.LOST):
            return last
        if status == 0:
            return None if self._is_stopping else Report(Event.LOST, "the Spark application ended by itself")
        rows = 0 if last is None else last.rows
        return Report(Event.LOST, _explain_end(status, lines), rows)

    def _kill(self) -> None:
        """End the application and what it has started, if anything is left."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _explain_end(status: int, lines: deque[str]) -> str:
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return "\n".join([f"the Spark application {how}", *lines])


async def _keep(stream: asyncio.StreamReader, lines: deque[str]) -> None:
    """Keep the last lines of a stream."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            continue  # a line that is too long
        if not line:
            return
        lines.append(line.decode(errors="replace").rstrip())
