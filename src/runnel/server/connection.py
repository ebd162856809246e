"""One client connection: bytes in, frames to the dispatcher, replies out in order.

It knows no API. Requests of one connection are served one after the other, so replies
leave in request order; meanwhile the peer may send ahead, up to a bound. The asyncio
callbacks only cut frames and keep the bounds; `run` does the serving.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, cast

from runnel.base.limits import NOTES_PER_CONNECTION_MAX, READ_AHEAD_FRAMES_MAX, WRITE_BUFFER_BYTES_MAX
from runnel.protocol.errors import RemoteProtocolError
from runnel.server.budget import Budget
from runnel.server.frame_reader import FrameReader

log = logging.getLogger("runnel.server")

Buffer = bytes | bytearray | memoryview
Serve = Callable[["Connection", bytearray], Awaitable[Sequence[Buffer] | None]]
"""Answers one frame; None when the request wants no reply."""


class SocketSizes(NamedTuple):
    """The kernel's buffers for a connection; -1 leaves them to the operating system."""

    send_bytes: int
    receive_bytes: int


class Registry(Protocol):
    """Who counts connections."""

    def admit(self, connection: "Connection") -> str | None:
        """Count a new connection in, or say why it must go."""
        ...

    def forget(self, connection: "Connection") -> None:
        """Count a connection out."""
        ...


class ConnectionClosed(Exception):  # noqa: N818 - it is an event, not an error
    """Raised by a handler that wants the connection closed, with the reason."""


class Connection(asyncio.BufferedProtocol):
    """The asyncio side of a connection, and what the server knows of the peer."""

    def __init__(
        self,
        serve: Serve,
        reader: FrameReader,
        budget: Budget,
        listener_name: str,
        sizes: "SocketSizes",
        registry: "Registry",
    ) -> None:
        self.listener_name = listener_name
        self.principal = "User:ANONYMOUS"
        self.peer = "?"
        self.host = "?"
        self.local_host = "?"
        self.client_software = ""
        self.active_at = 0.0
        self.frame_began_at: float | None = None
        self.stalled_since: float | None = None
        self._serve = serve
        self._reader = reader
        self._budget = budget
        self._sizes = sizes
        self._registry = registry
        self._frames: deque[bytearray] = deque()
        self._partial_bytes = 0
        self._frame_arrived: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._serving = False
        self._waits_for_room = False
        self._noted: set[str] = set()

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        address = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = address[0], f"{address[0]}:{address[1]}"
        self.local_host = (transport.get_extra_info("sockname") or ("localhost",))[0]
        self._size_socket(transport.get_extra_info("socket"))
        self.active_at = self._loop.time()
        if refusal := self._registry.admit(self):
            self.abort(refusal)
        else:
            self._task = self._loop.create_task(self.run())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at = self._loop.time()
        try:
            frames = self._reader.received(nbytes)
        except RemoteProtocolError as error:
            self.close(str(error))
            return
        self._account(frames)
        if frames:
            self._frames.extend(frames)
            self.frame_began_at = self.active_at if self._reader.in_frame else None
            if self._frame_arrived is not None and not self._frame_arrived.done():
                self._frame_arrived.set_result(None)
        elif self.frame_began_at is None:
            self.frame_began_at = self.active_at
        self._keep_bounds()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a reset is no news
        self._registry.forget(self)
        if self._task is not None:
            self._task.cancel()
        self._budget.give_back(self._partial_bytes + sum(map(len, self._frames)))
        self._partial_bytes = 0
        self._frames.clear()

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        self.stalled_since = self._loop.time()

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- serving

    async def run(self) -> None:
        """Serve frames until the connection is gone."""
        try:
            while True:
                if not self._frames:
                    await self._next_frame()
                frame = self._frames.popleft()
                self._serving = True
                try:
                    reply = await self._serve(self, frame)
                finally:
                    self._serving = False
                    self._budget.give_back(len(frame))
                self._keep_bounds()
                if reply is not None:
                    await self._write(reply)
        except (RemoteProtocolError, ConnectionClosed) as error:
            self.close(str(error))
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception:
            log.exception("connection %s failed", self.peer)
            self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being served; a long poll is not idle."""
        return not self._serving and not self._frames

    def close(self, reason: str) -> None:
        """Let the peer go, saying why in the log; what was written still goes out."""
        if not self._transport.is_closing():
            log.warning("closed the connection from %s: %s", self.peer, reason)
            self._transport.close()

    def close_quietly(self) -> None:
        """Let an idle peer go; that is no event worth a line."""
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Drop the peer at once, without waiting for it to read what is written."""
        log.warning("dropped the connection from %s: %s", self.peer, reason)
        self._transport.abort()

    async def end(self) -> None:
        """Stop serving because the broker stops."""
        self._transport.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def note_once(self, text: str) -> None:
        """One log line a connection for what is odd but harmless."""
        if text not in self._noted and len(self._noted) < NOTES_PER_CONNECTION_MAX:
            self._noted.add(text)
            log.warning("%s: %s", self.peer, text)

    async def _next_frame(self) -> None:
        self._frame_arrived = self._loop.create_future()
        await self._frame_arrived
        self._frame_arrived = None

    async def _write(self, pieces: Sequence[Buffer]) -> None:
        self._transport.writelines(pieces)
        self.active_at = self._loop.time()
        if self._writable is not None:
            await self._writable

    # --- bounds

    def _account(self, frames: Sequence[bytearray]) -> None:
        held = self._partial_bytes
        self._partial_bytes = self._reader.partial_bytes
        change = sum(map(len, frames)) + self._partial_bytes - held
        if change >= 0:
            self._budget.take(change)
        else:
            self._budget.give_back(-change)

    def _keep_bounds(self) -> None:
        """Stop reading a peer that is too far ahead, or while others fill the memory."""
        if self._transport.is_closing():
            return
        if len(self._frames) > READ_AHEAD_FRAMES_MAX:
            self._transport.pause_reading()
        elif self._budget.has_room(self._reader.growth_bytes(), self._partial_bytes):
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            self._wait_for_room()

    def _size_socket(self, peer_socket: socket.socket) -> None:
        for option, size_bytes in (
            (socket.SO_SNDBUF, self._sizes.send_bytes),
            (socket.SO_RCVBUF, self._sizes.receive_bytes),
        ):
            if size_bytes > 0:
                peer_socket.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def _wait_for_room(self) -> None:
        if not self._waits_for_room:
            self._waits_for_room = True
            self._budget.wait(self._room_made)

    def _room_made(self) -> None:
        self._waits_for_room = False
        self._keep_bounds()
