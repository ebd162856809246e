"""The time that a coroutine uses the event loop, without the time for which it waits."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class StepTimer(Generic[T]):
    """Awaits something and adds up the time of its steps."""

    def __init__(self, inner: Awaitable[T], clock_ns: Callable[[], int]) -> None:
        self._inner = inner
        self._clock_ns = clock_ns
        self.used_ns = 0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._inner.__await__()
        error: BaseException | None = None
        while True:
            began_ns = self._clock_ns()
            try:
                # Futures resume what awaits them without a value, so there is none to pass on.
                waited_for = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.used_ns += self._clock_ns() - began_ns
            error = None
            try:
                yield waited_for
            except BaseException as thrown:  # a cancellation is for the inner coroutine too
                error = thrown
