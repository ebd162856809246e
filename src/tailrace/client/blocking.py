"""Synchronous methods, derived from the coroutine methods of the asyncio clients.

A client for ordinary code has an asyncio client in `_aio` and runs its coroutines with `_run`. Either they run on the
client's own thread, as those of the admin client do, or in the caller's: where every wait of a coroutine blocks the
thread, the coroutine never suspends, and it can be run like a function. Callbacks and the records that are at hand
then cost no change of threads.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that waits for a coroutine method, with the same parameters and the same docstring."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        return cast("T", self._run(method(self._aio, *arguments, **options)))

    return call


def run_in_caller(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends because all of its waits block the thread."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    work.close()
    raise RuntimeError("a callback of a synchronous client must not wait for an event loop; use tailrace.aio instead")


def iterate_in_caller(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Hand out the items of an asynchronous generator that never suspends."""
    try:
        while True:
            try:
                item = run_in_caller(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run_in_caller(items.aclose())
