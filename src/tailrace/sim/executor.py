"""The replacement for a thread pool in the simulator, which has no threads."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


class SimExecutor(Executor):
    """Accepts the arguments of a `ThreadPoolExecutor`, and runs submitted work at once.

    Work for the loop's `run_in_executor` does not come here: the loop runs it later, and one item after the other if
    the pool has one thread.
    """

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        self.thread_count_max = max_workers
        self.name = thread_name_prefix

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:
            done.set_exception(error)
        return done


class OwnThread(SimExecutor):
    """A thread of an application, which calls clients and does little else."""

    def __init__(self) -> None:
        super().__init__(max_workers=1)
