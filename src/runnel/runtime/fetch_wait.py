"""Waiting for enough bytes, without polling: appends wake the one who waits."""

import asyncio
from collections.abc import Sequence

from runnel.runtime.partition import Partition


class FetchWait:
    """One long poll over some partitions."""

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self._woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def appended(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.disturbed()

    def disturbed(self) -> None:
        self._wake(True)

    async def wait(self, partitions: Sequence[Partition], timeout_s: float, *, for_end: bool = False) -> bool:
        """Whether something happened before the time was over; with `for_end` also what is not committed counts."""
        for partition in partitions:
            partition.wait(self, for_end=for_end)
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wake, False)
        try:
            return await self._woken
        finally:
            timer.cancel()
            for partition in partitions:
                partition.stop_waiting(self)

    def _wake(self, happened: bool) -> None:
        if not self._woken.done():
            self._woken.set_result(happened)
