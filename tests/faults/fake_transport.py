"""A connection without a socket: what the peer sends is handed to the protocol, and what the broker sends is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tailrace.server.connection import Connection
from tailrace.server.peer_state import PEER_STATE, PeerState

_SPINS_MAX = 200
_TURN_S = 0.001


class _Socket:
    def setsockopt(self, *_: object) -> None:
        pass


class FakeTransport(asyncio.Transport):
    """A transport whose peer reads everything at once."""

    def __init__(self, connection: Connection, port: int = 50000) -> None:
        super().__init__(
            {
                "peername": ("127.0.0.1", port),
                "sockname": ("127.0.0.1", 9092),
                "socket": _Socket(),
                PEER_STATE: lambda: PeerState.PRESENT,
            }
        )
        self.sent = bytearray()
        self._connection = connection
        self._is_closing = False
        self._is_paused = False
        self._loop = asyncio.get_running_loop()
        connection.connection_made(self)

    # --- what a connection calls

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.sent += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._connection.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def is_reading(self) -> bool:
        return not self._is_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    # --- what the peer does

    async def deliver(self, data: bytes) -> None:
        """Hand over bytes as fast as the connection reads them, or until it is closed."""
        position = 0
        spins = 0
        while position < len(data) and not self._is_closing:
            if self._is_paused:
                spins = await self._turn(spins)
                if self._connection._ending is not None:
                    return
                continue
            buffer = self._connection.get_buffer(-1)
            size = min(len(buffer), len(data) - position)
            buffer[:size] = data[position : position + size]
            self._connection.buffer_updated(size)
            position += size

    async def until_quiet(self) -> None:
        """Wait until every whole request has been answered, or the connection is closed."""
        spins = 0
        while not self._is_closing and not self._connection.is_idle:
            spins = await self._turn(spins)

    async def finish(self) -> bytes:
        """Close the peer's side, wait for the end of the connection and return what the broker has sent."""
        if not self._is_closing:
            self._connection.eof_received()
        spins = 0
        while not self._is_closing:
            spins = await self._turn(spins)
        await asyncio.sleep(0)
        return bytes(self.sent)

    async def _turn(self, spins: int) -> int:
        await asyncio.sleep(0 if spins < _SPINS_MAX else _TURN_S)  # a thread or the disk may have to do something
        return spins + 1
