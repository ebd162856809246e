"""The thread in which a synchronous client runs its event loop."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from tailrace.base.event_loop import new_event_loop
from tailrace.client.error import ClientClosed, RequestTimeout

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a program that does not close its client still ends."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._is_closed = False

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result."""
        if self.is_current:
            work.close()
            raise RuntimeError("a callback runs in the client's own thread and must not wait for the client")
        answer = self.begin(work)
        try:
            return answer.result(timeout_s)
        except FutureTimeout:
            if answer.done():  # the coroutine itself raised it
                raise
            answer.cancel()
            raise RequestTimeout(f"the call did not complete within {timeout_s:g} s") from None
        except BaseException:
            answer.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop without waiting for it."""
        if self._is_closed:
            work.close()
            raise ClientClosed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in the thread itself, as in a callback, and would wait forever."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if not self.is_current:
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()
