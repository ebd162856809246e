"""An event loop without a clock, sockets or threads, in which time advances from one event to the next.

It behaves like asyncio's loop, so brokers and clients run on it unchanged. Each program has a processor of its own: its
steps run in the order in which they were scheduled, each takes a time that the seed draws, and meanwhile other programs
go on. Work for threads runs in one step at a time chosen by the seed, beside the steps of its program. Nothing depends
on the machine, so one seed gives one sequence of steps, which `digest` identifies.
"""

import asyncio
import itertools
from array import array
from asyncio import events
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context, copy_context
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar, cast

from tailrace.sim.executor import OwnThread, SimExecutor
from tailrace.sim.network import Network
from tailrace.sim.process import PROCESS, Life, Process
from tailrace.sim.thread import SimThread
from tailrace.storage.memory_fs import Crash

T = TypeVar("T")

START_S = 1_000.0
_STEP_S_MIN = 0.000_005  # so that time passes even without waiting
_STEP_S_MAX = (_STEP_S_MIN, 0.000_05, 0.000_5, 0.002)
_WAKE_S = (0.000_005, 0.000_5)
_CALL_S = (0.000_005, 0.000_1)  # of an application's call of a client
_QUICK_WORK_S = (0.000_05, 0.002)
_SLOW_WORK_S = (0.005, 0.25)
_SLOW_SHARE = 0.05
_TASKS_MIN = 1_000
_STEPS_MAX = 1_000_000  # ten times the steps of the longest seed
_LATEST = 2_000
_END_TRIES_MAX = 1_000


class Stuck(Exception):
    """No step is left, or too much time has passed, before the main task ended."""


class _Handle(asyncio.Handle):
    """A step. asyncio's own constructor and `cancel` read the loop's debug flag each time."""

    __slots__ = ()
    _repr = _source_traceback = None  # only set for debugging
    _callback: Any
    _args: Any

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class _Timer(asyncio.TimerHandle):
    """A step at a time. A cancelled timer stays in the loop, which skips it at its time."""

    __slots__ = ("is_thread", "process")
    _repr = _source_traceback = None
    _scheduled = False
    _callback: Any
    _args: Any

    def __init__(self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False
        self._when = when
        self.process: Process | None = context.get(PROCESS)
        self.is_thread = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class _Future(asyncio.Future[Any]):
    """A future whose position in a set does not depend on its memory address."""

    _number: int

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task with the same property."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number  # before asyncio adds it to its set of tasks
        self.label = str(getattr(coro, "__qualname__", "task"))
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.AbstractEventLoop):
    """Time, steps, and the network between the programs."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"loop {seed}")
        self.network = Network(self, Random(f"network {seed}"))
        self.after_step: Callable[[Process | None], None] | None = None
        self.failures: list[str] = []
        self.step_count = 0
        self.limit_s = float("inf")
        self._now_s = START_S
        self._world = Process("-", "")  # of the steps that belong to no program
        self._world.step_ratio = 1.0
        self._agenda: list[tuple[float, int, Any]] = []  # timers and, for their next steps, programs
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_max = _TASKS_MIN
        self._threads: dict[SimThread, None] = {}
        self._free_at_s: dict[Executor, float] = {}
        self._digest = blake2b(digest_size=16)
        self._times = array("d")  # of steps that are not in the digest yet
        self._words: list[str] = []
        self._is_running = False
        self._is_closed = False

    @property
    def digest(self) -> str:
        """A hash of everything that has happened, in order, with times."""
        self._digest.update(self._times.tobytes())
        self._digest.update("\n".join(self._words).encode())
        del self._times[:], self._words[:]
        return self._digest.hexdigest()

    def note(self, *words: str) -> None:
        """Add an event to the digest."""
        self._times.append(self._now_s)
        self._words += words

    # --- running

    def run_until_complete(self, future: Coroutine[Any, Any, T]) -> T:  # type: ignore[override]
        events._set_running_loop(self)
        self._is_running = True
        try:
            task = self.create_task(future)
            while not task.done():
                self._step()
                if self.failures:
                    raise Stuck(self.failures[0])
                if self.step_count > _STEPS_MAX:
                    raise Stuck(f"more than {_STEPS_MAX} steps: {Counter(self._words[-_LATEST:]).most_common(8)}")
            return task.result()
        finally:
            self._is_running = False
            events._set_running_loop(None)

    def _step(self) -> None:
        if not self._agenda:
            raise Stuck("no step is left to run")
        when_s, _, due = heappop(self._agenda)
        if when_s > self._now_s:
            self._now_s = when_s
            if when_s > self.limit_s:
                raise Stuck(f"{when_s - START_S:.0f} s have passed")
        if type(due) is Process:
            due.is_scheduled = False
            self._run_next(due)
        elif not due._cancelled:
            self._ring(due)

    def _ring(self, timer: _Timer) -> None:
        """Run a timer now if its program is idle, or after the steps that are ready."""
        process = timer.process or self._world
        if timer.is_thread and process.life is Life.RUNNING:
            self._run(timer, process)
            return
        process.ready.append(timer)
        if not process.is_scheduled:
            if process.free_at_s <= self._now_s:
                self._run_next(process)
            else:
                self._schedule(process)

    def _run_next(self, process: Process) -> None:
        """Run the next step of a program. The steps of a paused program stay, those of a dead one never run."""
        if process.life is not Life.RUNNING:
            if process.life is Life.DEAD:
                process.ready.clear()
            return
        ready = process.ready
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                process.is_scheduled = True  # what the step schedules runs after it
                ratio = process.step_ratio or self._draw_ratio(process)
                process.free_at_s = self._now_s + _STEP_S_MIN * ratio ** self.random.random()
                self._run(handle, process)
                process.is_scheduled = False
                break
        if ready:
            self._schedule(process)

    def _draw_ratio(self, process: Process) -> float:
        """Draw the ratio of the longest and the shortest step of a program."""
        process.step_ratio = self.random.choice(_STEP_S_MAX) / _STEP_S_MIN
        return process.step_ratio

    def _schedule(self, process: Process) -> None:
        process.is_scheduled = True
        when_s = process.free_at_s if process.free_at_s > self._now_s else self._now_s
        heappush(self._agenda, (when_s, next(self._numbers), process))

    def _run(self, handle: Any, process: Process) -> None:
        self.step_count += 1
        callback = handle._callback
        self._times.append(self._now_s)
        self._words += (process.name, _name(callback))
        try:
            handle._context.run(callback, *handle._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": "a step failed", "exception": error, "handle": handle})
        if self.after_step is not None:
            self.after_step(None if process is self._world else process)

    def resume(self, process: Process) -> None:
        """Resume a paused program with the steps that it missed."""
        process.life = Life.RUNNING
        if process.ready and not process.is_scheduled:
            self._schedule(process)

    def stop(self) -> None:
        raise NotImplementedError("a simulation ends with its main task")

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """End all remaining tasks, of live and dead programs, without running their steps."""
        self._is_closed = True
        # A task that asks for a loop during its end gets none, as after `asyncio.run`, and not one that stays open.
        asyncio.set_event_loop(None)
        for task in [task for task in self._tasks if not task.done()]:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _end_coroutine(task.get_coro())
        for thread in list(self._threads):
            thread.end()
        self._tasks.clear()
        self._threads.clear()
        self._agenda.clear()

    # --- steps and tasks

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        if context is None:
            context = copy_context()
        handle = _Handle(callback, args, context)
        if not self._is_closed:
            process = context.get(PROCESS) or self._world
            process.ready.append(handle)
            if not process.is_scheduled:
                self._schedule(process)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_soon_world(self, callback: Callable[..., object]) -> None:
        """Run a callback that belongs to no program, such as the end of one."""
        self.call_soon(callback, context=Context())

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, copy_context() if context is None else context)
        if not self._is_closed:
            heappush(self._agenda, (when, next(self._numbers), timer))
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        future = _Future(loop=self)
        future._number = next(self._numbers)
        return future

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[T]":
        task = _Task(next(self._numbers), coro, loop=self, name=name, context=context)
        # Keep the tasks of dead programs: if they were collected, their cleanup would run at an undetermined time.
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_max:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_max = 2 * len(self._tasks) + _TASKS_MIN
        return task

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """Treat the failure of a task that is not awaited as a bug."""
        task.add_done_callback(self._on_end, context=Context())

    def _on_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Crash):
            self.failures.append(f"{getattr(task, 'label', task)} ended with {error!r}")

    # --- work of threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        takes_s = self.random.uniform(*self._range_s(executor))
        begins_s = self._now_s
        if isinstance(executor, SimExecutor) and executor.thread_count_max == 1:
            begins_s = max(begins_s, self._free_at_s.get(executor, 0.0))
            self._free_at_s[executor] = begins_s + takes_s
        done: asyncio.Future[T] = self.create_future()
        runs_s, ends_s = begins_s + takes_s * self.random.random(), begins_s + takes_s
        self.call_thread_at(runs_s, self._work, done, ends_s, func, args, context=copy_context())
        return done

    def _range_s(self, executor: Executor | None) -> tuple[float, float]:
        if isinstance(executor, OwnThread):
            return _CALL_S
        return _SLOW_WORK_S if self.random.random() < _SLOW_SHARE else _QUICK_WORK_S

    def _work(self, done: "asyncio.Future[T]", ends_s: float, func: Callable[..., T], args: tuple[Any, ...]) -> None:
        """Run the work in one step, or in several if it waits, and deliver its result later."""
        if done.cancelled():
            return

        def work() -> None:
            try:
                result, error = func(*args), None
            except BaseException as raised:  # like that of a thread, it is delivered to the waiter
                result, error = None, raised
            self._threads.pop(thread, None)
            self.call_at(max(ends_s, self._now_s), _settle, done, result, error)

        thread = SimThread(self, work)
        self._threads[thread] = None
        thread.switch()

    def call_thread_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context
    ) -> asyncio.TimerHandle:
        """Run a step of a thread, which does not wait for the steps of its program."""
        timer: Any = self.call_at(when, callback, *args, context=context)
        timer.is_thread = True
        return cast("asyncio.TimerHandle", timer)

    def wake_s(self) -> float:
        """Return the time at which a thread that is woken now goes on."""
        return self._now_s + self.random.uniform(*_WAKE_S)

    # --- the network

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self,
        protocol_factory: Any,
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> Any:
        return await self.network.connect(protocol_factory, host, port)

    # --- other methods that asyncio calls

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Do nothing: there are no slow steps to find."""

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: generators end with their tasks."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no default executor."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an uncaught exception as a failure."""
        process = PROCESS.get()
        if self._is_closed or (process is not None and not process.is_alive):
            return
        if isinstance(context.get("exception"), Crash):
            return  # the program was killed during a file system call
        self.failures.append(f"{process or 'no program'}: {context['message']}: {context.get('exception')!r}")


class _End(BaseException):
    """Thrown into the remaining coroutines at the end of a simulation."""


def _end_coroutine(coroutine: Any) -> None:
    """End a coroutine. Throw again if it waits during its cleanup."""
    # Not close(), which would leave an inner coroutine that waits during cleanup to the garbage collector.
    with suppress(BaseException):  # errors of the cleanup are ignored
        for _ in range(_END_TRIES_MAX):
            coroutine.throw(_End())


def _settle(done: "asyncio.Future[T]", result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


def _name(callback: Any) -> str:
    """Return a name of a step that is the same in every run."""
    task = getattr(callback, "__self__", None)
    if type(task) is _Task:
        return task.label
    name: str | None = getattr(callback, "__qualname__", None)
    return type(callback).__name__ if name is None else name
