"""The gate before a listener with a rate of new connections: one that comes too early waits here, unread.

A connection that waits is only a socket. Its transport is dropped, because a transport of uvloop begins to read after
`connection_made`, whatever that has said; another one is made when its turn comes. Only connections that can be served
have a place among those that wait: one that the listener would refuse is closed at once, one whose client has left is
let go, and those that are closed after a pause, because of the rate of their address, are counted apart.
"""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

from tailrace.config.listener import Endpoint
from tailrace.server.bounded_log import BoundedLog
from tailrace.server.peer_state import PeerState, find_absent
from tailrace.server.quota.connection_rate import ConnectionRates

log = logging.getLogger("tailrace.server")

Refusal = Callable[[str, str, int], str | None]
"""Returns why a listener would refuse one more connection from a host while so many others from there wait."""


class _Place(NamedTuple):
    """A connection that waits, and what it waits for."""

    host: str
    endpoint: Endpoint
    inner: asyncio.BaseProtocol
    timer: asyncio.TimerHandle


class Waiting:
    """The connections that wait at the gates of a broker."""

    def __init__(self, rates: ConnectionRates, refusal: Refusal) -> None:
        self.rates = rates
        self.refusal = refusal
        self.places: dict[socket.socket, _Place] = {}
        self.refused: dict[socket.socket, asyncio.TimerHandle] = {}  # which are closed after a pause
        self._count_by_host: Counter[str] = Counter()
        self._openings: set[asyncio.Task[None]] = set()
        self._refusals = BoundedLog(lambda count: f"refused {count} more connections, which are not logged one by one")

    def count_of(self, host: str) -> int:
        """Return how many connections from a host wait for their turn."""
        return self._count_by_host[host]

    def refuse(self, host: str, reason: str) -> None:
        """Log that a connection is refused."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        self._refusals.warn(now_ms, "refused a connection from %s: %s", host, reason)

    def keep(
        self, tcp: asyncio.Transport, delay_ms: float, host: str, endpoint: Endpoint, inner: asyncio.BaseProtocol
    ) -> None:
        """Let a connection wait, and then give it to `inner`."""
        waiting = self._detach(tcp, host)
        if waiting is None:
            self.rates.give_back(endpoint)
            return
        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._begin, waiting)
        self.places[waiting] = _Place(host, endpoint, inner, timer)
        self._count_by_host[host] += 1

    def close_later(self, tcp: asyncio.Transport, delay_ms: float, host: str) -> None:
        """Close a refused connection after a pause, which slows its client down."""
        waiting = self._detach(tcp, host)
        if waiting is not None:
            self.refused[waiting] = asyncio.get_running_loop().call_later(delay_ms / 1000, self._close_refused, waiting)

    def let_go(self) -> None:
        """Close the connections whose clients have left. Over TLS, a client that sends no more has left."""
        for waiting, state in _absent(self.places):
            place = self.places[waiting]
            if state is not PeerState.ENDED or place.endpoint.security_protocol.endswith("SSL"):
                place.timer.cancel()
                self._leave(waiting)
                waiting.close()
                self.rates.give_back(place.endpoint)
        for waiting, _ in _absent(self.refused):
            self.refused[waiting].cancel()
            self._close_refused(waiting)

    def close(self) -> None:
        """Close all of them, because the broker stops."""
        timers = {**self.refused, **{waiting: place.timer for waiting, place in self.places.items()}}
        for waiting, timer in timers.items():
            timer.cancel()
            waiting.close()
        self.places.clear()
        self.refused.clear()
        self._count_by_host.clear()

    def _detach(self, tcp: asyncio.Transport, host: str) -> socket.socket | None:
        """Return the connection without its transport; None if that failed and the connection is closed."""
        try:
            return _duplicate(tcp)
        except OSError as error:  # the process may have no more descriptors
            self.refuse(host, f"it cannot wait for its turn: {error.strerror}")
            return None
        finally:
            tcp.abort()  # which closes its own descriptor; the connection stays open as long as there is another one

    def _leave(self, waiting: socket.socket) -> _Place:
        place = self.places.pop(waiting)
        self._count_by_host[place.host] -= 1
        if not self._count_by_host[place.host]:
            del self._count_by_host[place.host]
        return place

    def _close_refused(self, waiting: socket.socket) -> None:
        del self.refused[waiting]
        waiting.close()

    def _begin(self, waiting: socket.socket) -> None:
        opening = asyncio.get_running_loop().create_task(self._open(waiting, self._leave(waiting).inner))
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)

    async def _open(self, waiting: socket.socket, inner: asyncio.BaseProtocol) -> None:
        waiting.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: inner, waiting)
        except OSError as error:
            log.info("a connection that waited for its turn is gone: %s", error)
            waiting.close()


def _absent(sockets: Iterable[socket.socket]) -> list[tuple[socket.socket, PeerState]]:
    by_descriptor = {waiting.fileno(): waiting for waiting in sockets}
    return [(by_descriptor[descriptor], state) for descriptor, state in find_absent(by_descriptor).items()]


def _duplicate(tcp: asyncio.Transport) -> socket.socket:
    """Return another socket of the same connection."""
    descriptor = os.dup(tcp.get_extra_info("socket").fileno())
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise


class Gate(asyncio.Protocol):
    """The protocol of a connection until it is clear whether it has to wait; then `inner` takes its place."""

    def __init__(self, waiting: Waiting, endpoint: Endpoint, inner: asyncio.BaseProtocol) -> None:
        self._waiting = waiting
        self._endpoint = endpoint
        self._inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tcp, waiting, endpoint = cast("asyncio.Transport", transport), self._waiting, self._endpoint
        host = (tcp.get_extra_info("peername") or ("?",))[0]
        if refusal := waiting.refusal(endpoint.name, host, waiting.count_of(host)):
            waiting.refuse(host, refusal)
            tcp.abort()
            return
        delay_ms, refusal = waiting.rates.judge(endpoint, host, len(waiting.places), len(waiting.refused))
        if refusal is not None:
            waiting.refuse(host, refusal)
            waiting.close_later(tcp, delay_ms, host) if delay_ms > 0 else tcp.abort()
        elif delay_ms > 0:
            waiting.keep(tcp, delay_ms, host, endpoint, self._inner)
        else:
            tcp.set_protocol(self._inner)
            self._inner.connection_made(tcp)
