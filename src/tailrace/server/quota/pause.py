"""The pauses of connections whose clients have used more than their quota."""

import asyncio
from collections.abc import Callable


class Pause:
    """The time for which one connection is neither read nor served."""

    def __init__(self, pauses: "Pauses", rest_ms: float, rest_ms_now: Callable[[], float]) -> None:
        """`rest_ms_now` returns how long the client has to pause at the rate of the moment."""
        self._pauses = pauses
        self._rest_ms = rest_ms
        self._rest_ms_now = rest_ms_now
        self._woken = asyncio.Event()
        self._until = 0.0
        self._is_ended = False
        self.is_over = False

    async def wait(self) -> None:
        """Return when the time is over, or when the pause was ended."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + self._rest_ms / 1000
        self._pauses.running.add(self)
        try:
            while not self._is_ended and (left_s := self._until - loop.time()) > 0:
                timer = loop.call_later(left_s, self._woken.set)
                await self._woken.wait()
                timer.cancel()
                self._woken.clear()
        finally:
            self.is_over = True
            self._pauses.running.discard(self)

    def reconsider(self) -> None:
        """Shorten the pause, because the client's quota may have been raised."""
        ends_at = asyncio.get_running_loop().time() + self._rest_ms_now() / 1000
        if ends_at < self._until:
            self._until = ends_at
            self._woken.set()

    def end(self) -> None:
        """End the pause, because its connection is lost."""
        self._is_ended = True
        self._woken.set()


class Pauses:
    """The connections that are paused at the moment."""

    def __init__(self) -> None:
        self.running: set[Pause] = set()

    def reconsider(self) -> None:
        """Shorten the pauses of clients whose quotas were raised or removed."""
        for pause in tuple(self.running):
            pause.reconsider()
