"""Waits for an offset of one partition, such as its high watermark, to be reached."""

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from tailrace.protocol.errors import ErrorCode

OffsetReached: TypeAlias = asyncio.Future[ErrorCode | None]
"""Done when an offset is reached, with None, or when it may never be, with the reason."""


class OffsetWaits:
    """The requests that wait for one offset of one partition to rise, woken in the order of the offsets they need."""

    __slots__ = ("_numbers", "_waits")

    def __init__(self) -> None:
        self._waits: list[tuple[int, int, OffsetReached]] = []
        self._numbers = count()

    def add(self, offset: int) -> OffsetReached:
        """Wait until `offset` is reached."""
        reached: OffsetReached = asyncio.get_running_loop().create_future()
        heappush(self._waits, (offset, next(self._numbers), reached))
        return reached

    def reach(self, offset: int) -> None:
        """Wake the requests that need no more than `offset`."""
        while self._waits and self._waits[0][0] <= offset:
            _resolve(heappop(self._waits)[2], None)

    def fail(self, code: ErrorCode | None) -> None:
        """Wake all requests: with the reason why the offset may never be reached, or with None if it need not be."""
        waits, self._waits = self._waits, []
        for _, _, reached in waits:
            _resolve(reached, code)


def _resolve(reached: OffsetReached, code: ErrorCode | None) -> None:
    if not reached.done():  # the request may have timed out
        reached.set_result(code)
