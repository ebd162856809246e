"""The thread of an embedded broker, from its start to its stop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

from tailrace.base.event_loop import new_event_loop
from tailrace.config.broker import BrokerConfig
from tailrace.server.dispatch import Intercept
from tailrace.server.server import start_server

T = TypeVar("T")

# A broker starts in a fraction of a second; the timeouts allow for a busy machine or a long recovery.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
CALL_TIMEOUT_S = 120.0


class BrokerThread:
    """A broker with an event loop in its own thread. It is started once and stopped once.

    Other threads use the loop under a lock, and only while the broker runs: a closing loop would raise "Event loop is
    closed", or accept a callback and never run it.
    """

    def __init__(self, config: BrokerConfig, intercept: Intercept) -> None:
        self._config = config
        self._intercept = intercept
        self._thread = threading.Thread(target=self._run, name="tailrace-broker", daemon=True)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._is_abandoned = False
        self._calls: set[Future[Any]] = set()
        self._started: Future[str] = Future()
        self._failure: BaseException | None = None

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> str:
        """Start the broker and return its address; raises the error of a failed start."""
        self._thread.start()
        try:
            is_decided = bool(wait([self._started], START_TIMEOUT_S).done)
        except BaseException:  # Ctrl-C, or the timeout of a test
            self._abandon()
            raise
        if not is_decided:
            self._abandon()
            folders = ", ".join(map(str, self._config.log_directories))
            raise TimeoutError(f"the broker with its data in {folders} did not start within {START_TIMEOUT_S:g} s")
        if self._started.exception() is not None:
            self._thread.join(STOP_TIMEOUT_S)
        return self._started.result()

    def stop(self) -> None:
        """Stop the broker and wait for its thread; raises the error of a failed stop."""
        self._post(self._stopping.set)
        self._thread.join(STOP_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the broker did not stop within {STOP_TIMEOUT_S:g} s")
        if self._failure is not None:
            raise self._failure

    def call(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the broker's loop; raises RuntimeError if the broker stops first."""
        with self._lock:
            if self._loop is None:
                raise RuntimeError("the broker is not running")
            answer = asyncio.run_coroutine_threadsafe(action(), self._loop)
            self._calls.add(answer)
        try:
            return answer.result(CALL_TIMEOUT_S)
        except CancelledError:
            raise RuntimeError("the broker was stopped before it had answered") from None
        except TimeoutError:
            if answer.done():  # the call's own timeout
                raise
            raise TimeoutError(f"the broker did not answer within {CALL_TIMEOUT_S:g} s") from None
        finally:
            answer.cancel()
            with self._lock:
                self._calls.discard(answer)

    # --- in the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        if not self._started.done():
            reason = self._failure or RuntimeError("the broker's thread ended before the broker had started")
            self._started.set_exception(reason)

    async def _serve(self) -> None:
        with self._lock:
            if self._is_abandoned:
                return
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()
        try:
            server = await start_server(self._config, intercept=self._intercept)
        except BaseException as error:
            self._close()
            self._started.set_exception(error)
            raise
        try:
            endpoint = server.endpoints[0]
            self._started.set_result(f"{endpoint.host}:{endpoint.port}")
            await self._stopping.wait()
        finally:
            self._close()
            await server.stop()

    def _close(self) -> None:
        """Close the loop for other threads, and end their pending calls."""
        with self._lock:
            self._loop = None
            calls = list(self._calls)
        for call in calls:
            call.cancel()

    # --- in other threads

    def _abandon(self) -> None:
        """Cancel a start that has not finished."""
        with self._lock:
            self._is_abandoned = True  # the thread may have no task yet
            task = self._task
        if task is not None:
            self._post(task.cancel)
        self._thread.join(STOP_TIMEOUT_S)

    def _post(self, action: Callable[[], object]) -> None:
        """Schedule a callback in the loop, unless the broker has stopped or is stopping."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(action)
