"""One client connection: bytes in, frames to the dispatcher, replies out in order.

The module does not depend on any API. Requests of one connection are served one after the other,
so replies leave in request order; meanwhile the client may send more requests, up to a bound. The
asyncio callbacks only split the stream into frames and enforce the bounds; `run` serves them.

A request that has begun is always completed, even if its client disconnects, because other clients
see its effects; only its waits are cut short. Requests that arrived before the client closed its
side are served too: a producer without acks may close right after its last send. Handlers for which
a late request does harm check `is_abandoned`.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from tailrace.base.limits import NOTES_PER_CONNECTION_MAX, WRITE_BUFFER_BYTES_MAX
from tailrace.base.text import printable
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.server.budget import Backlog, Budget
from tailrace.server.frame_reader import FrameReader
from tailrace.server.inbox import Inbox
from tailrace.server.peer_state import PeerState, peer_state
from tailrace.server.quota.pause import Pause

if TYPE_CHECKING:
    from tailrace.server.security.session import SaslSession

log = logging.getLogger("tailrace.server")

ANONYMOUS = "User:ANONYMOUS"
"""A client that did not have to say who it is."""

Buffer = bytes | bytearray | memoryview
Serve = Callable[["Connection", bytearray], Awaitable[Sequence[Buffer] | None]]
"""Serves one frame and returns its reply; None if the request asks for no reply."""


class SocketSizes(NamedTuple):
    """The sizes of the kernel's buffers for a connection; -1 leaves them to the operating system."""

    send_bytes: int
    receive_bytes: int


class Registry(Protocol):
    """The count of open connections, and the log lines about them."""

    def admit(self, connection: "Connection") -> str | None:
        """Count a new connection, or return why it must be closed."""
        ...

    def forget(self, connection: "Connection") -> None:
        """Stop counting a connection."""
        ...

    def warn(self, text: str, *arguments: object) -> None:
        """Log a warning about a connection; clients can cause only so many."""
        ...


class ConnectionClosed(Exception):
    """Raised by a handler to close the connection, with the reason."""


class Connection(asyncio.BufferedProtocol):
    """A connection as an asyncio protocol, with what the server knows about the client."""

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
        self.security_protocol = "PLAINTEXT"
        self.principal = ANONYMOUS
        self.session: SaslSession | None = None  # on a listener with SASL
        self.is_token_authenticated = False
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
        self._pause: Pause | None = None  # until a request has been served without one
        self._arrived_at = 0.0
        self._last_words: str | None = None
        self._has_client_ended = False

    # --- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.arrive(transport):
            self.begin(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.active_at = self._loop.time()
        has_frame = self._inbox.received(nbytes)
        if self._task is None:
            # The first bytes after a TLS handshake come before its transport; `begin` takes them up.
            self._inbox.make_room_at_once()
            return
        self._take_up(has_frame)

    def _take_up(self, has_frame: bool) -> None:
        if has_frame:
            self._frame_began_at = None
            self._wake()
        elif self._inbox.has_room and self._frame_began_at is not None:
            return  # more of a large frame; there is nothing to decide until its buffer is full
        if self._inbox.problem is not None:
            self._transport.pause_reading()
            self._end_after_queue(self._inbox.problem)
        else:
            self._keep_bounds()

    def eof_received(self) -> bool:
        self._has_client_ended = True
        self._end_after_queue("")
        # The client may still read the replies to what it sent before. TLS has no half-closed connections.
        return not self.security_protocol.endswith("SSL")

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_client_ended = True
        self._registry.forget(self)
        self._inbox.clear()
        self._frame_began_at = None
        if self._pause is not None:
            self._pause.end()
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

    # --- beginning

    def arrive(self, transport: asyncio.BaseTransport) -> bool:
        """Count a connection that was accepted; return False if it was refused and dropped."""
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        address = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = address[0], f"{address[0]}:{address[1]}"
        self.local_host = (transport.get_extra_info("sockname") or ("localhost",))[0]
        self._set_socket_options(transport.get_extra_info("socket"))
        self.active_at = self._arrived_at = self._loop.time()
        if refusal := self._registry.admit(self):
            self.abort(refusal)
        return not refusal

    def begin(self, transport: asyncio.BaseTransport) -> None:
        """Serve a connection over this transport, which after a TLS handshake is another than that of its arrival."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._task = self._loop.create_task(self.run())
        if self._inbox or self._inbox.in_frame or self._inbox.problem is not None:
            self._take_up(bool(self._inbox))

    def abandon(self) -> None:
        """Drop a connection that has arrived and will not begin."""
        self._registry.forget(self)
        self._inbox.clear()
        self._transport.abort()

    def log_in(self, principal: str, *, is_token: bool, request_bytes_max: int) -> None:
        """Take over who the client is, and how large its requests may be from now on."""
        self.principal = principal
        self.is_token_authenticated = is_token
        self._inbox.allow(request_bytes_max)

    # --- serving

    async def run(self) -> None:
        """Serve frames until the connection ends."""
        try:
            while await self._has_frame():
                await self._serve_next()
                if self._inbox:
                    await asyncio.sleep(0)  # a client that sends ahead does not delay the others
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
        del arrived  # otherwise its memory would be held, but not counted, until the next request
        self._keep_bounds()
        if reply is not None and not self._transport.is_closing():
            self._transport.writelines(reply)
            del reply
            self.active_at = self._loop.time()
            if self._writable is not None:
                await self._writable
        if self._pause is not None:
            await self._wait_out(self._pause)
        if self._last_words is not None:
            raise ConnectionClosed(self._last_words)

    async def _wait_out(self, pause: Pause) -> None:
        """Wait until a pause is over, or forget it after the first request that was served without another one."""
        if pause.is_over:
            self._pause = None
        else:
            await pause.wait()
        self._keep_bounds()

    def close_after_reply(self, reason: str) -> None:
        """Close the connection once the reply to the present request is sent; log the reason, if there is one."""
        self._last_words = reason

    def pause(self, pause: Pause) -> None:
        """Read and serve nothing after the reply to the present request, as long as the pause takes (KIP-219).

        Requests are not read ahead until one has been served without a pause: those of many paused clients would fill
        the memory that others need.
        """
        self._pause = pause

    def when_ending(self, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` to end the wait of the current request once the client has closed its side."""
        self._interrupt = interrupt
        if self._ending is not None:
            interrupt()

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has closed its side or is gone, as far as the operating system knows.

        The client may have closed its side after it sent the current request, which is read first.
        """
        if self._has_client_ended or self._transport.is_closing():
            return True
        return peer_state(self._transport) is not PeerState.PRESENT

    def note_once(self, text: str) -> None:
        """Log something unusual but harmless, once for each connection."""
        if text not in self._noted and len(self._noted) < NOTES_PER_CONNECTION_MAX:
            self._noted |= {text}
            self._registry.warn("%s: %s", self.peer, printable(text))

    @property
    def reply_bytes_max(self) -> int:
        """The size limit of a reply, so that clients that do not read cannot fill the memory."""
        return self._backlog.room_bytes

    # --- ending

    @property
    def has_logged_in(self) -> bool:
        """Whether the client has finished its TLS handshake and its login, as far as the listener demands them."""
        return self._task is not None and (self.session is None or self.session.is_complete)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being served. A long poll is not idle, but a paused connection is, as in Kafka."""
        return self.is_paused or not (self._is_serving or self._inbox)

    @property
    def is_paused(self) -> bool:
        """Whether a quota keeps the connection from being read and served."""
        return self._pause is not None and not self._pause.is_over

    def close(self, reason: str = "") -> None:
        """Close the connection after sending what is buffered; log the reason, if there is one."""
        if self._transport.is_closing():
            return
        if reason:
            self._registry.warn("closed the connection from %s: %s", self.peer, printable(reason))
        self._ending_since = self._loop.time()
        self._transport.close()

    def abort(self, reason: str = "") -> None:
        """Close the connection at once, without sending what is buffered."""
        if reason:
            self._registry.warn("dropped the connection from %s: %s", self.peer, printable(reason))
        self._transport.abort()

    def let_go_if_overdue(self, now: float, idle_s: float, stall_s: float, login_s: float) -> None:
        """Close the connection if it has been idle, stalled or not logged in for too long at time `now`."""
        if not self.has_logged_in and _is_over(self._arrived_at, now, login_s):
            self.abort(f"the client has not logged in within {login_s:g} s")
        elif _is_over(self._ending_since, now, stall_s):
            self.abort("" if self._transport.is_closing() else self._ending or "")  # the reason is logged once
        elif _is_over(self._frame_began_at, now, stall_s):
            self.abort(f"a request has been arriving for more than {stall_s:g} s")
        elif _is_over(self._stalled_at(now), now, idle_s):
            self.abort("the client does not read its replies")
        elif self.is_idle and _is_over(self.active_at, now, idle_s):
            self.close()
        elif self.is_paused and self._has_lost_client():
            self.abort()

    async def end(self) -> None:
        """Stop serving because the broker shuts down."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._transport.abort()

    def _end_after_queue(self, reason: str) -> None:
        """Stop reading; when all received requests are served, the connection ends."""
        if self._ending is None:
            self._ending = reason
            self._ending_since = self._loop.time()
            self._frame_began_at = None
            self._wake()
            if self._interrupt is not None:
                self._interrupt()

    def _stalled_at(self, now: float) -> float | None:
        """Return since when the client has read nothing of its waiting replies, or None."""
        if self._stalled_since is None:
            return None
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._backlog.size_bytes += unsent_bytes - self._unsent_bytes
            self._unsent_bytes = unsent_bytes
            self._stalled_since = now
        return self._stalled_since

    def _has_lost_client(self) -> bool:
        """Return whether the client of a paused connection, which is not read, has left without requests to serve.

        Over TLS a client that has closed its side may have sent requests that are not decrypted yet.
        """
        if self._inbox or self._transport.is_closing():
            return False
        state = peer_state(self._transport)
        is_plain = not self.security_protocol.endswith("SSL")
        return state is PeerState.GONE or (state is PeerState.FINISHED and is_plain)

    def _wake(self) -> None:
        if self._frame_arrived is not None and not self._frame_arrived.done():
            self._frame_arrived.set_result(None)

    # --- bounds

    def _keep_bounds(self) -> None:
        """Continue reading, or pause a client that is too far ahead or that needs more memory than is free."""
        if self._ending is not None or self._transport.is_closing():
            return
        is_held_back = self._pause is not None and (self._is_serving or not self._pause.is_over)
        if is_held_back or self._inbox.is_far_ahead(self._is_serving):
            self._transport.pause_reading()
            self._frame_began_at = None  # the broker, not the client, delays the rest of the frame
            return
        if self._frame_began_at is None and self._inbox.in_frame:
            self._frame_began_at = self._loop.time()
        if self._inbox.make_room():
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _set_socket_options(self, peer_socket: socket.socket) -> None:
        # A client whose machine has failed must not hold a long poll for ever.
        peer_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size_bytes in (
            (socket.SO_SNDBUF, self._sizes.send_bytes),
            (socket.SO_RCVBUF, self._sizes.receive_bytes),
        ):
            if size_bytes > 0:
                peer_socket.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def _is_over(since: float | None, now: float, limit_s: float) -> bool:
    return since is not None and now - since > limit_s
