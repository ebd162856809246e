"""The socket side of a client connection: bytes in, whole frames out.

It knows no requests. What is left of a large frame is received straight into the memory that
its records are then read from; small frames come many at a time and are copied out.
"""

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import cast

from runnel.base.limits import RECEIVE_SCRATCH_BYTES, RESPONSE_BYTES_MAX
from runnel.client.frame_pool import FramePool
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.primitive import Buffer

_LENGTH = Struct(">i")


class Stream(asyncio.BufferedProtocol):
    """Cuts what a broker sends into frames without their lengths, and hands them to `on_frame`."""

    def __init__(
        self, on_frame: Callable[[bytearray | memoryview], None], on_lost: Callable[[Exception | None], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._scratch = memoryview(bytearray(RECEIVE_SCRATCH_BYTES))
        self._kept = 0  # bytes at the start of the scratch that are no whole length yet
        self._pool = FramePool()
        self._frame: bytearray | memoryview | None = None
        self._filled = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Send these bytes when the socket takes them."""
        if self._transport is not None:
            self._transport.writelines(pieces)

    def close(self) -> None:
        """Close when everything written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def wait_writable(self) -> None:
        """Return once the broker has taken enough of what was written before."""
        await self._writable.wait()

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._on_lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        if self._frame is None:
            return self._scratch[self._kept :]
        return memoryview(self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is None:
            self._cut(self._kept + nbytes)
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            frame, self._frame = self._frame, None
            self._on_frame(frame)

    # --- frames

    def _cut(self, end: int) -> None:
        position = 0
        while end - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._scratch, position)
            if not 0 < length <= RESPONSE_BYTES_MAX:
                self._fail(f"a reply of {length} bytes; is it a Kafka broker that listens there?")
                return
            position += _LENGTH.size
            frame = self._pool.take(length)
            there = self._scratch[position : min(end, position + length)]
            frame[: len(there)] = there
            position += len(there)
            if len(there) < length:
                self._frame, self._filled = frame, len(there)
            else:
                self._on_frame(frame)
        self._kept = end - position
        self._scratch[: self._kept] = bytes(self._scratch[position:end])

    def _fail(self, message: str) -> None:
        self._on_lost(RemoteProtocolError(message))
        self.abort()
