"""The wait of a fetch for enough bytes, which appends wake."""

import asyncio
from collections.abc import Sequence

from tailrace.runtime.partition import Partition


class FetchWait:
    """The wait of one fetch, at some partitions."""

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self._woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def appended(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.disturbed()

    def disturbed(self) -> None:
        self._wake(True)

    async def wait(self, partitions: Sequence[Partition], timeout_s: float) -> bool:
        """Sleep until enough is readable or something else happens; return False if the time was over first."""
        for partition in partitions:
            partition.waiters.add(self)
        timer = asyncio.get_running_loop().call_later(timeout_s, self._wake, False)
        try:
            return await self._woken
        finally:
            timer.cancel()
            for partition in partitions:
                partition.waiters.remove(self)

    def _wake(self, happened: bool) -> None:
        if not self._woken.done():
            self._woken.set_result(happened)
