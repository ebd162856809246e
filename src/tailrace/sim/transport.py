"""Both ends of a simulated connection.

Each end has a queue of pieces for the other. A piece is delivered at its time if the link is up, in a step of the
receiving program. A program that does not read, or is paused, leaves the rest in the queue; what exceeds the kernel's
buffer counts as the sender's write buffer.

A program that aborts a connection or dies leaves what its kernel had taken. Either that still arrives, however late, or
a reset overtakes it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from random import Random
from typing import Any, Protocol

from tailrace.server.peer_state import PEER_STATE, PeerState
from tailrace.sim.process import Process
from tailrace.sim.socket import Probe, SimSocket

Address = tuple[str, int]
Buffer = bytes | bytearray | memoryview

_KERNEL_BYTES = 256 * 1024
_WRITE_HIGH_BYTES = 64 * 1024
_SPLIT_SHARE = 0.1
_SPLIT_S_MAX = 0.005
_TOGETHER_SHARE = 0.7  # of data behind delayed data, which arrives together with it
_GREETING_COUNT = 2  # deliveries before a connection may break: the reply with the API versions has arrived
_OVERTAKE_SHARE = 0.5  # of resets, which arrive before the data that was sent before them
_STRANDED_REPLY_S = 1.0  # for the broker to handle what arrives late, before it learns that the client is gone
_FINISH = b""  # sent last by a peer that writes no more
_RESET = ConnectionResetError(104, "Connection reset by peer")


class Wire(Protocol):
    """The part of the network that transports use."""

    random: Random
    transports: "dict[SimTransport, None]"
    loop: Any

    def is_open(self, source: str, target: str) -> bool: ...

    def loses(self, source: str, target: str) -> bool: ...

    def catch(self, source: str, data: bytes) -> float: ...

    def arrival_s(self) -> float: ...

    def carry(self, source: str, target: str, action: Callable[[], None]) -> None: ...

    def wait_open(self, source: str, target: str, action: Callable[[], None]) -> None: ...


class SimTransport(asyncio.Transport):
    """One end of a connection, as asyncio passes it to a protocol."""

    def __init__(self, wire: Wire, local: Address, remote: Address) -> None:
        own = SimSocket(self)
        super().__init__({"peername": remote, "sockname": local, "socket": own, PEER_STATE: self._look_at_peer})
        self.local = local
        self.remote = remote
        self.process: Process | None = None
        self.context: Context = Context()
        self.peer: SimTransport
        self._wire = wire
        self._protocol: Any = None
        self._outgoing: deque[tuple[float, bytes]] = deque()
        self._outgoing_bytes = 0
        self._last_arrival_s = 0.0
        self._held_until_s = 0.0
        self._delivery_count = 0
        self._high_bytes = _WRITE_HIGH_BYTES
        self._is_writing_paused = False
        self._is_reading = True
        self._is_pumping = False
        self._is_black_hole = False
        self._is_closing = False
        self._is_gone = False
        wire.transports[self] = None

    def start(self, protocol: Any) -> None:
        """Start the protocol, and deliver data that arrived before."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._is_gone:
            protocol.connection_lost(_RESET)
        else:
            self.peer.pump()

    # --- the transport interface

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing or self._is_gone

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self.peer.pump()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = _WRITE_HIGH_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        size_bytes = self._outgoing_bytes - _KERNEL_BYTES
        return size_bytes if size_bytes > 0 else 0

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        data = b"".join(list_of_data)
        if not data or self._is_closing or self._is_gone:
            return
        if held_s := self._wire.catch(self.local[0], data):
            self.hold(held_s)
        for piece in self._split(data):
            self._send(piece)
        if self.get_write_buffer_size() > self._high_bytes and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()
        self.pump()

    def write_eof(self) -> None:
        self._send(_FINISH)
        self.pump()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if self._is_closing or self._is_gone:
            return
        self._is_closing = True
        self._send(_FINISH)
        self.pump()
        if not self.get_write_buffer_size():
            self._soon(self._lose, None)

    def abort(self) -> None:
        if self._is_gone:
            return
        self._is_closing = True
        self._leave()
        self._soon(self._lose, None)

    # --- faults

    def die(self) -> None:
        """End this side because its program died: the kernel closes the connection or resets it."""
        self._leave()
        self._end(keeps_outgoing=True)
        self.pump()

    def vanish(self) -> None:
        """End this side without notice, because its host is off."""
        self._end()

    def break_off(self) -> None:
        """Reset the connection at both ends."""
        self._wire.carry(self.remote[0], self.local[0], self._on_reset)
        self._reset_peer()

    def swallow(self) -> None:
        """Drop all data in both directions from now on, without notice."""
        self._is_black_hole = self.peer._is_black_hole = True

    def hold(self, for_s: float) -> None:
        """Deliver nothing to the peer for a time, also if this side is gone meanwhile."""
        self._held_until_s = self._wire.loop.time() + for_s

    def strand(self, for_s: float) -> None:
        """Reset this end alone, as a proxy on the way may. What was sent before arrives after a time.

        The peer does not learn of the reset before that, because nothing reaches this end any more.
        """
        self.hold(for_s)
        self.peer.hold(for_s + _STRANDED_REPLY_S)
        self._soon(self._lose, _RESET, False)

    def release(self) -> None:
        """Deliver now what is held."""
        self._held_until_s = 0.0
        self._is_pumping = False
        self.pump()

    # --- delivery to the peer

    def _split(self, data: bytes) -> list[bytes]:
        random = self._wire.random
        if len(data) < 2 or random.random() >= _SPLIT_SHARE:
            return [data]
        cuts = sorted({random.randrange(1, len(data)) for _ in range(random.randint(1, 3))})
        return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def _send(self, piece: bytes) -> None:
        arrival_s = self._wire.arrival_s()
        if self._outgoing:
            is_together = self._wire.random.random() < _TOGETHER_SHARE
            later_s = 0.0 if is_together else self._wire.random.uniform(0, _SPLIT_S_MAX)
            arrival_s = max(arrival_s, self._last_arrival_s + later_s)
        self._last_arrival_s = max(arrival_s, self._last_arrival_s)
        self._outgoing.append((self._last_arrival_s, piece))
        self._outgoing_bytes += len(piece)

    def pump(self) -> None:
        """Schedule the delivery of the next piece."""
        if self._outgoing and not self._is_pumping and not self._is_black_hole:
            self._is_pumping = True
            self._try_at(self._outgoing[0][0])

    def _try_at(self, when_s: float) -> None:
        """Deliver in a step of the peer, so that it waits while the peer is paused; a closed peer has no steps."""
        context = Context() if self.peer._is_gone else self.peer.context
        self._wire.loop.call_at(max(when_s, self._wire.loop.time()), self._try, context=context)

    def _try(self) -> None:
        self._is_pumping = False
        if not self._outgoing or self._is_black_hole:
            return
        if self._held_until_s > self._wire.loop.time():
            self._is_pumping = True
            self._try_at(self._held_until_s)
        elif not self._wire.is_open(self.local[0], self.remote[0]):
            self._is_pumping = True
            self._wire.wait_open(self.local[0], self.remote[0], lambda: self._try_at(0.0))
        elif self.peer._is_gone:
            self._drop_outgoing()
            self._wire.carry(self.remote[0], self.local[0], self._on_reset)
        elif self.peer._protocol is not None and self.peer._is_reading:
            self._delivery_count += 1
            if self._delivery_count > _GREETING_COUNT and self._wire.loses(self.local[0], self.remote[0]):
                self._break_instead()
            else:
                self._deliver()

    def _break_instead(self) -> None:
        """Break the connection in place of a delivery. The sender learns of it later."""
        self._drop_outgoing()
        self.peer._on_reset()
        self._wire.carry(self.remote[0], self.local[0], self._on_reset)

    def _deliver(self) -> None:
        piece = self._take()
        rest = self.peer._receive(piece)
        self._outgoing_bytes -= len(piece) - len(rest)
        if rest:
            self._outgoing.appendleft((0.0, rest))
        self._drained()
        self.pump()

    def _take(self) -> bytes:
        """Take what has arrived by now, as one call of the kernel returns it. The end comes in a call of its own."""
        _, piece = self._outgoing.popleft()
        if not self._outgoing:
            return piece
        pieces, now_s = [piece], self._wire.loop.time()
        while piece and self._outgoing and self._outgoing[0][0] <= now_s and self._outgoing[0][1]:
            pieces.append(self._outgoing.popleft()[1])
        return b"".join(pieces)

    def _drained(self) -> None:
        if self.get_write_buffer_size():
            return
        if self._is_gone:
            return
        if self._is_writing_paused:
            self._is_writing_paused = False
            self._soon(self._protocol.resume_writing)
        if self._is_closing:
            self._soon(self._lose, None)

    def _receive(self, piece: bytes) -> bytes:
        """Pass a piece to the protocol and return the part that it did not take."""
        if self._is_closing:
            return b""
        if piece == _FINISH:
            if not self._protocol.eof_received():
                self.close()
            return b""
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(piece)
            return b""
        while piece and self._is_reading and not self._is_gone:
            room: Any = self._protocol.get_buffer(-1)
            size_bytes = min(len(room), len(piece))
            if size_bytes == len(piece):
                room[:size_bytes], piece = piece, b""
            else:
                room[:size_bytes], piece = piece[:size_bytes], piece[size_bytes:]
            self._protocol.buffer_updated(size_bytes)
        return piece

    def _look_at_peer(self) -> PeerState:
        """Return what this side's kernel knows of the peer: the end counts once it has arrived, read or not."""
        if self._is_gone:
            return PeerState.GONE
        arrived = self.peer._arrived()
        if _FINISH not in arrived:
            return PeerState.PRESENT
        return PeerState.FINISHED if arrived[0] == _FINISH else PeerState.ENDED

    def _arrived(self) -> list[bytes]:
        """Return the pieces that the peer's kernel has and the peer has not read."""
        now_s = self._wire.loop.time()
        is_held = self._is_black_hole or self._held_until_s > now_s
        if is_held or not self._wire.is_open(self.local[0], self.remote[0]):
            return []
        return [piece for arrival_s, piece in self._outgoing if arrival_s <= now_s]

    # --- probes of the kernel

    def probe_peer(self) -> Probe:
        """Ask the peer's kernel whether it has this connection; one that has not resets it."""
        now_s, ends = self._wire.loop.time(), (self.local[0], self.remote[0])
        is_held = max(self._held_until_s, self.peer._held_until_s) > now_s
        if self._is_gone:
            return Probe.OVER
        if is_held or self._is_black_hole or not (self._wire.is_open(*ends) and self._wire.is_open(*ends[::-1])):
            return Probe.UNANSWERED
        if not self.peer._is_gone or self.peer._outgoing:
            return Probe.ANSWERED
        self._wire.carry(self.remote[0], self.local[0], self._on_reset)
        return Probe.OVER

    def time_out(self) -> None:
        """End this side because the peer has not answered for too long."""
        self._soon(self._lose, TimeoutError(110, "Connection timed out"))

    # --- the end of a connection

    def _leave(self) -> None:
        """Leave what the kernel has taken to its fate: it arrives before the end, or a reset overtakes it."""
        while self.get_write_buffer_size():
            self._outgoing_bytes -= len(self._outgoing.pop()[1])
        if self._wire.random.random() < _OVERTAKE_SHARE:
            self._drop_outgoing()
            self._reset_peer()
        else:
            self._send(_FINISH)
            self.pump()

    def _reset_peer(self) -> None:
        self._wire.carry(self.local[0], self.remote[0], self.peer._on_reset)

    def _on_reset(self) -> None:
        if not self._is_gone and not self._is_black_hole:
            self._soon(self._lose, _RESET)

    def _lose(self, error: Exception | None, may_overtake: bool = True) -> None:
        if self._is_gone:
            return
        is_overtaken = error is not None and may_overtake and self._wire.random.random() < _OVERTAKE_SHARE
        self._end(keeps_outgoing=not is_overtaken)
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def _end(self, *, keeps_outgoing: bool = False) -> None:
        self._is_gone = True
        if not keeps_outgoing:
            self._drop_outgoing()
        self._wire.transports.pop(self, None)
        self.peer._is_pumping = False  # the step of this end that was to deliver never comes
        self.peer.pump()

    def _drop_outgoing(self) -> None:
        self._outgoing.clear()
        self._outgoing_bytes = 0

    def _soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._wire.loop.call_at(self._wire.loop.time(), callback, *arguments, context=self.context)


def join(wire: Wire, source: Address, target: Address) -> tuple[SimTransport, SimTransport]:
    """Return the two ends of a new connection."""
    one, other = SimTransport(wire, source, target), SimTransport(wire, target, source)
    one.peer, other.peer = other, one
    return one, other
