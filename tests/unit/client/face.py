"""The asyncio clients driven from ordinary code, so that one test speaks to both faces."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tailrace
from tailrace.client.loop_thread import LoopThread


class _Waiting:
    """A future of another thread's loop, with the face of those of `concurrent.futures`."""

    def __init__(self, thread: LoopThread, future: "asyncio.Future[Any]") -> None:
        self._thread = thread
        self._future = future

    def result(self, timeout: float | None = None) -> Any:
        async def wait() -> Any:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._future)

        return self._thread.call(wait())

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            self.result(timeout)
        except Exception as error:
            return error
        return None

    def done(self) -> bool:
        return self._future.done()


class Blocking:
    """An asyncio client whose methods wait."""

    def __init__(self, make: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
        self._client = make(*arguments, **settings)  # what is wrong with settings is an error here, as in the twin
        self._thread = LoopThread("test-face")
        self._is_closed = False

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *error: object) -> None:
        self._end(lambda: self._client.__aexit__(*error))

    def close(self, *arguments: Any) -> None:
        self._end(lambda: self._client.close(*arguments))

    def _end(self, ending: Callable[[], Any]) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._thread.call(ending())
            self._thread.close()

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self._thread.call(anext(self._client))

    def batches(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        found = self._client.batches(*arguments, **options)

        async def step() -> Any:
            return await anext(found, None)

        try:
            while (batch := self._thread.call(step())) is not None:
                yield batch
        finally:
            if not self._is_closed:
                self._thread.call(found.aclose())

    @contextmanager
    def transaction(self) -> Iterator["Blocking"]:
        block = self._client.transaction()
        self._thread.call(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            if not self._thread.call(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._thread.call(block.__aexit__(None, None, None))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*given: Any, **options: Any) -> Any:
            arguments = [item._client if isinstance(item, Blocking) else item for item in given]

            async def run() -> Any:
                answer = method(*arguments, **options)
                is_waited_for = inspect.isawaitable(answer) and not isinstance(answer, asyncio.Future)
                return await answer if is_waited_for else answer

            answer = self._thread.call(run())
            if answer is self._client:
                return self
            return _Waiting(self._thread, answer) if isinstance(answer, asyncio.Future) else answer

        return call


class Face:
    """The clients of one face by name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def producer(self, *arguments: Any, **settings: Any) -> Any:
        if self.name == "thread":
            return tailrace.Producer(*arguments, **settings)
        return Blocking(tailrace.aio.Producer, *arguments, **settings)

    def consumer(self, *arguments: Any, **settings: Any) -> Any:
        if self.name == "thread":
            return tailrace.Consumer(*arguments, **settings)
        return Blocking(tailrace.aio.Consumer, *arguments, **settings)

    def admin(self, *arguments: Any, **settings: Any) -> Any:
        if self.name == "thread":
            return tailrace.Admin(*arguments, **settings)
        return Blocking(tailrace.aio.Admin, *arguments, **settings)
