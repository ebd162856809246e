"""Flushes of one log that several appends share, so that each append is acknowledged only when it is on the disk.

Theory of operation. An append that `flush.messages` wants flushed joins. If no flush runs, one begins in a worker
thread. Appends that join meanwhile wait for the next flush, which begins when the first has ended and covers all of
them. So a single producer pays one flush for each request, and many producers share one. Consumers may not read
what was appended until its flush has ended, because it could still be lost.

A flush that fails takes its folder offline. The appends that wait for it fail, and so do all later ones.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias

from tailrace.storage.error import StorageError
from tailrace.storage.flush import Flush
from tailrace.storage.log import Log

FlushEnd: TypeAlias = asyncio.Future[StorageError | None]
"""Done when a flush has ended, with None or with what went wrong."""


class SharedFlush:
    """The flush of a log that runs, and the one that begins after it."""

    __slots__ = ("_flushed", "_joined_bytes", "_log", "_next", "_running", "_task", "_worker")

    def __init__(self, log: Log, worker: Executor | None, flushed: Callable[[int, int], None]) -> None:
        """`flushed` is called with the offset that a flush reached and the number of bytes that joined it."""
        self._log = log
        self._worker = worker
        self._flushed = flushed
        self._running: FlushEnd | None = None
        self._next: FlushEnd | None = None
        self._joined_bytes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_pending(self) -> bool:
        return self._task is not None

    @property
    def end(self) -> FlushEnd | None:
        """The end of the flush that covers everything that has joined; None if all of it is on the disk.

        The future is shared, so it must not be cancelled.
        """
        return self._next or self._running

    def join(self, size_bytes: int) -> None:
        """Have what was just appended flushed."""
        self._joined_bytes += size_bytes
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
        if self._task is None:
            self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._next is not None:
                self._running, self._next = self._next, None
                self._running.set_result(await self._flush())
        finally:
            # Some are left only when the broker stops in the middle.
            for end in (self._running, self._next):
                if end is not None and not end.done():
                    end.cancel()
            self._running = self._next = self._task = None

    async def _flush(self) -> StorageError | None:
        joined_bytes, self._joined_bytes = self._joined_bytes, 0
        try:
            flush = await self._flush_once()
            while self._log.truncation_count != flush.truncation_count:
                # A truncation removed part of what was flushed, and other records may stand in its place.
                flush = await self._flush_once()
        except StorageError as error:
            return error
        self._flushed(flush.end_offset, joined_bytes)
        return None

    async def _flush_once(self) -> Flush:
        flush = self._log.begin_flush()
        await asyncio.get_running_loop().run_in_executor(self._worker, flush.run)
        self._log.end_flush(flush)
        return flush
