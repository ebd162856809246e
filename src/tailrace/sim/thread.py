"""Threads of simulated programs: functions that run between any two steps of their program, and may block.

A thread is a greenlet. From one wait to the next it runs in one step of the loop, beside the steps of its program.
Where a real thread would wait for a condition, it returns to the loop, which resumes it later.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

T = TypeVar("T")


class Loop(Protocol):
    """The part of the event loop that threads use."""

    def time(self) -> float: ...

    def is_closed(self) -> bool: ...

    def wake_s(self) -> float: ...

    def call_thread_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context) -> object: ...


class SimThread(greenlet):
    """One thread, from its start to its end."""

    def __init__(self, loop: Loop, work: Callable[[], None]) -> None:
        super().__init__(work)
        self.gr_context = copy_context()
        self._context = copy_context()  # of the steps that resume it
        self._loop = loop
        self._wait_count = 0

    def wait(self, timeout_s: float | None) -> bool:
        """Return to the loop until the waker of this wait is released; False after the time."""
        loop_greenlet = self.parent
        if self._loop.is_closed() or loop_greenlet is None:
            raise GreenletExit
        if timeout_s is not None:
            self._resume_at(self._loop.time() + max(timeout_s, 0.0), self._wait_count, is_woken=False)
        is_woken: bool = loop_greenlet.switch()
        return is_woken

    def waker(self) -> "Waker":
        """Return what ends the next wait."""
        return Waker(self, self._wait_count)

    def wake(self, number: int) -> None:
        """Resume a wait soon, unless it is over by then."""
        self._resume_at(self._loop.wake_s(), number, is_woken=True)

    def end(self) -> None:
        """End the thread where it waits."""
        if not self.dead:
            self.throw(GreenletExit)

    def _resume_at(self, when_s: float, number: int, *, is_woken: bool) -> None:
        self._loop.call_thread_at(when_s, self._resume, number, is_woken, context=self._context)

    def _resume(self, number: int, is_woken: bool) -> None:
        if number == self._wait_count and not self.dead:
            self._wait_count += 1  # so that neither a time-out nor another waker resumes the next wait
            self.switch(is_woken)


class Waker:
    """The part of a lock by which a condition wakes a thread."""

    def __init__(self, thread: SimThread, number: int) -> None:
        self._thread = thread
        self._number = number

    def release(self) -> None:
        """Wake the thread."""
        self._thread.wake(self._number)


class SimCondition(threading.Condition):
    """A condition that threads of the simulation can wait for."""

    def wait(self, timeout: float | None = None) -> bool:
        thread, inner = getcurrent(), self._inner()
        if not isinstance(thread, SimThread):
            return super().wait(timeout)  # a real thread of a test
        waker = thread.waker()
        inner._waiters.append(waker)
        saved = inner._release_save()
        is_woken = False
        try:
            is_woken = thread.wait(timeout)
        finally:
            inner._acquire_restore(saved)
            if not is_woken and waker in inner._waiters:
                inner._waiters.remove(waker)
        return is_woken

    def _inner(self) -> Any:
        """Return the condition with the attributes that typeshed does not know."""
        return self


class LoopRunner:
    """What a client takes for the thread of its event loop. The simulation runs all loops."""

    def __init__(self, **_: object) -> None:
        """Ignore what the thread would run."""

    def start(self) -> None:
        """Do nothing: the loop runs."""

    def join(self) -> None:
        """Do nothing: the loop goes on for others."""


class ClientLoop:
    """The event loop of a client's own thread: that of the simulation, which a client cannot stop."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def stop(self) -> None:
        """Do nothing: other programs go on."""


def run_coroutine(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> Future[T]:
    """Do what `asyncio.run_coroutine_threadsafe` does, with a task from the start, which the simulation ends."""
    if loop.is_closed():
        work.close()
        raise RuntimeError("the simulation has ended")
    answer: Future[T] = Future()
    task = loop.create_task(work)

    def settle(_: object) -> None:
        if answer.cancelled():
            return
        if task.cancelled():
            answer.cancel()
        elif (error := task.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    def cancel(_: object) -> None:
        if answer.cancelled() and not task.done():
            loop.call_soon_threadsafe(task.cancel)

    task.add_done_callback(settle)
    answer.add_done_callback(cancel)
    return answer
