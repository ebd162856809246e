"""The socket side of a client connection: bytes in, whole frames out.

It does not know requests. The rest of a large frame is received directly into the memory from which its
records are read; small frames arrive many at a time and are copied.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import cast

from tailrace.base.limits import RECEIVE_SCRATCH_BYTES, RESPONSE_BYTES_MAX
from tailrace.client.frame_pool import FramePool
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.primitive import Buffer

_LENGTH = Struct(">i")
_GOODBYE_S = 1.0
_DISCARD = Struct("ii").pack(1, 0)  # linger for no time: the connection is reset
_PROBE_COUNT = 3  # unanswered ones after which the peer counts as gone
_TLS_STARTS = (0x1503, 0x1603)  # the first bytes of an alert and of a handshake


class Stream(asyncio.BufferedProtocol):
    """Splits the bytes of a broker into frames without their lengths, and passes them to `on_frame`."""

    def __init__(
        self, on_frame: Callable[[bytearray | memoryview], None], on_lost: Callable[[Exception | None], None]
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._scratch = memoryview(bytearray(RECEIVE_SCRATCH_BYTES))
        self._kept = 0  # bytes at the start of the scratch buffer that are not a whole length yet
        self._pool = FramePool()
        self._frame: bytearray | memoryview | None = None
        self._filled = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()
        self._is_watched = False

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Write bytes to the socket, or buffer them."""
        if self._transport is not None:
            self._transport.writelines(pieces)

    async def close(self) -> None:
        """Close after all written bytes are sent, and wait for it. TLS says goodbye first, in a limited time."""
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(_GOODBYE_S):
                await self._closed.wait()
        except TimeoutError:
            self._transport.abort()
            await self._closed.wait()

    def abort(self) -> None:
        """Close at once, and have the operating system discard what it has not sent yet.

        Otherwise it would continue to send requests that the client has given up, and the broker might execute them
        after their repetitions and after later requests.
        """
        if self._transport is None:
            return
        own = self._transport.get_extra_info("socket")
        if own is not None and not self._transport.is_closing():  # or its descriptor may be another socket's by now
            with suppress(OSError):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
        self._transport.abort()

    def watch_peer(self, limit_ms: float) -> None:
        """Have the operating system end the connection if the peer's machine does not answer for `limit_ms`.

        A machine that has lost power says nothing, and neither does a network that drops a connection. A client that
        sends nothing more would wait for ever; keepalive probes make it learn of this.
        """
        if self._transport is None or self._is_watched or self._transport.is_closing():
            return
        self._is_watched = True
        own = self._transport.get_extra_info("socket")
        if own is None:
            return
        for level, option, value in _watching_options(limit_ms):
            with suppress(OSError):
                own.setsockopt(level, option, value)

    async def wait_writable(self) -> None:
        """Wait until the write buffer is small enough."""
        await self._writable.wait()

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self._writable.set()
        self._on_lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
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
                self._fail(_strange(length))
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


def _watching_options(limit_ms: float) -> list[tuple[int, int, int]]:
    """Return the socket options for probes, as far as this system has them."""
    every_s = max(1, int(limit_ms / 1000 / _PROBE_COUNT))
    idle_name = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"  # the latter is macOS's
    # Probes are sent if nothing else is under way; TCP_USER_TIMEOUT limits how long that may wait to arrive, too.
    wanted = {
        idle_name: every_s,
        "TCP_KEEPINTVL": every_s,
        "TCP_KEEPCNT": _PROBE_COUNT,
        "TCP_USER_TIMEOUT": max(1, int(limit_ms)),
    }
    known = {getattr(socket, name): value for name, value in wanted.items() if hasattr(socket, name)}
    of_tcp = [(socket.IPPROTO_TCP, option, value) for option, value in known.items()]
    return [*of_tcp, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]


def _strange(length: int) -> str:
    if length >> 16 in _TLS_STARTS:
        return "the broker expects TLS on this port; set security.protocol to SSL or SASL_SSL"
    return f"a reply of {length} bytes; is it a Kafka broker that listens there?"
