"""Waiting until what was appended is committed, without polling: the high watermark wakes those who wait."""

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from runnel.protocol.errors import ErrorCode

CommitEnd: TypeAlias = asyncio.Future[ErrorCode | None]
"""Done when an offset is committed; the result is what went wrong instead."""


class CommitWaits:
    """Those who wait for the high watermark of one partition."""

    __slots__ = ("_ends", "_numbers")

    def __init__(self) -> None:
        self._ends: list[tuple[int, int, CommitEnd]] = []
        self._numbers = count()

    def add(self, offset: int) -> CommitEnd:
        """Wait for the high watermark to reach `offset`."""
        end: CommitEnd = asyncio.get_running_loop().create_future()
        heappush(self._ends, (offset, next(self._numbers), end))
        return end

    def reach(self, high_watermark: int) -> None:
        """Wake those who have waited long enough."""
        while self._ends and self._ends[0][0] <= high_watermark:
            _end(heappop(self._ends)[2], None)

    def fail(self, code: ErrorCode | None) -> None:
        """Tell everybody that nobody knows any more whether it will be committed, or with None that nobody cares."""
        ends, self._ends = self._ends, []
        for _, _, end in ends:
            _end(end, code)


def _end(end: CommitEnd, code: ErrorCode | None) -> None:
    if not end.done():  # whoever waits may have given up
        end.set_result(code)
