"""One client connection: bytes in, frames to the dispatcher, replies out in order.

It knows no API. Requests of one connection are served one after the other, so replies
leave in request order; meanwhile the peer may send ahead, up to a bound. The asyncio
callbacks only cut frames and keep the bounds; `run` does the serving.

A request that has begun is always served to its end, even when its peer is gone, because
what it does concerns others too; only its waiting is cut short. Requests that arrived before
the peer said it would send no more are served as well: a producer that wants no replies may
close right after its last send.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, cast

from runnel.base.limits import NOTES_PER_CONNECTION_MAX, WRITE_BUFFER_BYTES_MAX
from runnel.base.text import printable
from runnel.protocol.errors import RemoteProtocolError
from runnel.server.budget import Backlog, Budget
from runnel.server.frame_reader import FrameReader
from runnel.server.inbox import Inbox

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
        backlog: Backlog,
        listener_name: str,
        sizes: SocketSizes,
        registry: Registry,
    ) -> None:
        self.listener_name = listener_name
        self.principal = "User:ANONYMOUS"
        self.peer = "?"
        self.host = "?"
        self.local_host = "?"
        self.client_software = ""
        self.active_at = 0.0
        self._serve = serve
        self._inbox = Inbox(reader, budget, self._keep_bounds)
        self._backlog = backlog
        self._sizes = sizes
        self._registry = registry
        self._frame_began_at: float | None = None
        self._ending: str | None = None
        self._ending_since: float | None = None
        self._unsent_bytes = 0
        self._stalled_since: float | None = None
        self._frame_arrived: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_serving = False
        self._interrupt: Callable[[], None] | None = None
        self._noted: frozenset[str] = frozenset()

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._loop = asyncio.get_running_loop()
        address = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = address[0], f"{address[0]}:{address[1]}"
        self.local_host = (transport.get_extra_info("sockname") or ("localhost",))[0]
        self._set_socket_options(transport.get_extra_info("socket"))
        self.active_at = self._loop.time()
        if refusal := self._registry.admit(self):
            self.abort(refusal)
        else:
            self._task = self._loop.create_task(self.run())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._inbox.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at = self._loop.time()
        has_frame = self._inbox.received(nbytes)
        if has_frame:
            self._frame_began_at = None
            self._wake()
        elif self._inbox.has_room and self._frame_began_at is not None:
            return  # a large frame goes on, and nothing is to be decided before its memory is filled
        if self._inbox.problem is not None:
            self._transport.pause_reading()
            self._end_after_queue(self._inbox.problem)
        else:
            self._keep_bounds()

    def eof_received(self) -> bool:
        self._end_after_queue("")
        return True  # the peer may still read: it gets the replies to what it sent before

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a reset is no news
        self._registry.forget(self)
        self._inbox.clear()
        self._frame_began_at = None
        self.resume_writing()
        self._end_after_queue("")

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()
        self._stalled_since = self._loop.time()
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._backlog.size_bytes += self._unsent_bytes

    def resume_writing(self) -> None:
        self._backlog.size_bytes -= self._unsent_bytes
        self._unsent_bytes = 0
        self._stalled_since = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # --- serving

    async def run(self) -> None:
        """Serve frames until the connection is gone."""
        try:
            while await self._has_frame():
                await self._serve_next()
                if self._inbox:
                    await asyncio.sleep(0)  # a peer that sends ahead takes its turn like the others
        except (RemoteProtocolError, ConnectionClosed) as error:
            self.close(str(error))
        except asyncio.CancelledError:
            self._transport.abort()
            raise
        except Exception:
            log.exception("connection %s failed", self.peer)
            self._transport.abort()
        else:
            self.close(self._ending or "")

    async def _has_frame(self) -> bool:
        while not self._inbox:
            if self._ending is not None:
                return False
            self._frame_arrived = self._loop.create_future()
            await self._frame_arrived
            self._frame_arrived = None
        return True

    async def _serve_next(self) -> None:
        arrived = self._inbox.pop()
        self._is_serving = True
        try:
            reply = await self._serve(self, arrived.frame)
        finally:
            self._is_serving = False
            self._interrupt = None
            self._inbox.release(arrived)
        del arrived  # or its memory would be held, uncounted, until the next request
        self._keep_bounds()
        if reply is not None and not self._transport.is_closing():
            self._transport.writelines(reply)
            del reply
            self.active_at = self._loop.time()
            if self._writable is not None:
                await self._writable

    def when_ending(self, interrupt: Callable[[], None]) -> None:
        """Have `interrupt` end the waiting of the request that is being served once its peer sends no more."""
        self._interrupt = interrupt
        if self._ending is not None:
            interrupt()

    def note_once(self, text: str) -> None:
        """One log line a connection for what is odd but harmless."""
        if text not in self._noted and len(self._noted) < NOTES_PER_CONNECTION_MAX:
            self._noted |= {text}
            log.warning("%s: %s", self.peer, printable(text))

    @property
    def reply_bytes_max(self) -> int:
        """How large a reply should be at most, so that peers that do not read cannot fill the memory."""
        return self._backlog.room_bytes

    # --- ending

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being served; a long poll is not idle."""
        return not self._is_serving and not self._inbox

    def close(self, reason: str = "") -> None:
        """Let the peer go, saying why in the log if there is a reason; what was written still goes out."""
        if self._transport.is_closing():
            return
        if reason:
            log.warning("closed the connection from %s: %s", self.peer, printable(reason))
        self._ending_since = self._loop.time()
        self._transport.close()

    def abort(self, reason: str = "") -> None:
        """Drop the peer at once, without waiting for it to read what is written."""
        if reason:
            log.warning("dropped the connection from %s: %s", self.peer, printable(reason))
        self._transport.abort()

    def let_go_if_overdue(self, now: float, idle_s: float, stall_s: float) -> None:
        """End the connection if it has idled or stalled for too long at `now`."""
        if _is_over(self._ending_since, now, stall_s):
            self.abort("" if self._transport.is_closing() else self._ending or "")  # said once is enough
        elif _is_over(self._frame_began_at, now, stall_s):
            self.abort(f"a request has been arriving for more than {stall_s:g} s")
        elif _is_over(self._stalled_at(now), now, idle_s):
            self.abort("it does not read its replies")
        elif self.is_idle and _is_over(self.active_at, now, idle_s):
            self.close()

    async def end(self) -> None:
        """Stop serving because the broker stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._transport.abort()

    def _end_after_queue(self, reason: str) -> None:
        """Take no more from the peer; when what it sent is served, the connection ends."""
        if self._ending is None:
            self._ending = reason
            self._ending_since = self._loop.time()
            self._frame_began_at = None
            self._wake()
            if self._interrupt is not None:
                self._interrupt()

    def _stalled_at(self, now: float) -> float | None:
        """Since when the peer has read nothing of the replies that wait for it."""
        if self._stalled_since is None:
            return None
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._backlog.size_bytes += unsent_bytes - self._unsent_bytes
            self._unsent_bytes = unsent_bytes
            self._stalled_since = now
        return self._stalled_since

    def _wake(self) -> None:
        if self._frame_arrived is not None and not self._frame_arrived.done():
            self._frame_arrived.set_result(None)

    # --- bounds

    def _keep_bounds(self) -> None:
        """Read on, or stop reading a peer that is too far ahead or that needs more memory than there is."""
        if self._ending is not None or self._transport.is_closing():
            return
        if self._inbox.is_far_ahead(self._is_serving):
            self._transport.pause_reading()
            self._frame_began_at = None  # it is we who keep the rest of the frame waiting
            return
        if self._frame_began_at is None and self._inbox.in_frame:
            self._frame_began_at = self._loop.time()
        if self._inbox.make_room():
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _set_socket_options(self, peer_socket: socket.socket) -> None:
        # A peer whose machine is gone must not keep a long poll for ever.
        peer_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size_bytes in (
            (socket.SO_SNDBUF, self._sizes.send_bytes),
            (socket.SO_RCVBUF, self._sizes.receive_bytes),
        ):
            if size_bytes > 0:
                peer_socket.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def _is_over(since: float | None, now: float, limit_s: float) -> bool:
    return since is not None and now - since > limit_s
