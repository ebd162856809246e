"""Acknowledging records only when they are on the disk, many with one flush.

Theory of operation. An append that `flush.messages` wants flushed joins. If no flush runs,
one begins, in a worker thread; whoever joins meanwhile waits for the next, which begins when
the first has ended and covers all of them. So a producer alone pays one flush for each
request, and many producers share one. Until its flush has ended nobody may read what was
appended: it could still be lost.

A flush that fails takes its folder offline. All who wait are told, and so is everybody who
comes later.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias

from runnel.storage.error import StorageError
from runnel.storage.flush import Flush
from runnel.storage.log import Log

FlushEnd: TypeAlias = asyncio.Future[StorageError | None]


class GroupCommit:
    """The flushes of one log that others wait for."""

    __slots__ = ("_committed", "_joined_bytes", "_log", "_next", "_running", "_task", "_worker")

    def __init__(self, log: Log, worker: Executor | None, committed: Callable[[int, int], None]) -> None:
        """`committed` is called with the offset that a flush reached and the bytes that joined it."""
        self._log = log
        self._worker = worker
        self._committed = committed
        self._running: FlushEnd | None = None
        self._next: FlushEnd | None = None
        self._joined_bytes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_pending(self) -> bool:
        return self._task is not None

    @property
    def end(self) -> FlushEnd | None:
        """When everything that has joined is on the disk; None if it is.

        The result is what went wrong. The future is shared, so it must not be cancelled.
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
            # Only when the broker stops in the middle is anybody left here.
            for end in (self._running, self._next):
                if end is not None and not end.done():
                    end.cancel()
            self._running = self._next = self._task = None

    async def _flush(self) -> StorageError | None:
        joined_bytes, self._joined_bytes = self._joined_bytes, 0
        try:
            flush = await self._flush_once()
            while self._log.truncation_count != flush.truncation_count:
                # What it has forced to disk is not all there any more, and other records may stand in its place.
                flush = await self._flush_once()
        except StorageError as error:
            return error
        self._committed(flush.end_offset, joined_bytes)
        return None

    async def _flush_once(self) -> Flush:
        flush = self._log.begin_flush()
        await asyncio.get_running_loop().run_in_executor(self._worker, flush.run)
        self._log.end_flush(flush)
        return flush
