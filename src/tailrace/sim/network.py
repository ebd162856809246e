"""The network between simulated programs: listeners, links that can be cut in either direction, and latency.

Connections behave like TCP: bytes arrive in order or not at all, a cut only delays them, and a killed program resets
or finishes its connections. There is no order between different connections.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import Any, NamedTuple, Protocol

from tailrace.sim.process import PROCESS, Process
from tailrace.sim.transport import Address, SimTransport, join

FIRST_PORT = 40_000
_LATENCY_S = (0.000_1, 0.002)
_SLOW_LATENCY_S = (0.01, 0.3)
_SLOW_SHARE = 0.01
_RETRY_S_MAX = 1.0  # the longest delay of retransmission after a cut is mended
WORLD = "world"
_API_KEY = slice(4, 6)  # of a request, behind its length


class Loop(Protocol):
    """The part of the event loop that the network uses."""

    def time(self) -> float: ...

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle: ...

    def create_future(self) -> "asyncio.Future[Any]": ...


class Listener:
    """A listening port, which its owner sees as an `asyncio.Server`."""

    def __init__(self, network: "Network", address: Address, factory: Callable[[], Any]) -> None:
        self.address = address
        self.factory = factory
        self.context = copy_context()
        self.process = PROCESS.get()
        self.sockets = (self,)
        self._network = network

    def getsockname(self) -> Address:
        return self.address

    def close(self) -> None:
        """Stop accepting connections."""
        self._network.unlisten(self)

    async def wait_closed(self) -> None:
        """Return at once, because `close` is immediate."""


class _Trap(NamedTuple):
    """A kind of request that is held when a host sends it, for so long."""

    api_key: int
    for_s: float
    caught: "asyncio.Future[None]"


class _Waiting(NamedTuple):
    """A message that cannot be delivered now."""

    source: str
    target: str
    action: Callable[[], None]


class Network:
    """Hosts by name. A host is up unless its power is off; a link is up unless it is cut."""

    def __init__(self, loop: Loop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.slow_share = _SLOW_SHARE  # of messages, delayed so much that others overtake them
        self._loss_shares: dict[tuple[str, str], float] = {}
        self._traps: dict[str, _Trap] = {}
        self.transports: dict[SimTransport, None] = {}
        self._listeners: dict[Address, Listener] = {}
        self._ports: dict[str, int] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._waiting: list[_Waiting] = []

    # --- faults

    def cut(self, source: str, target: str) -> None:
        """Stop delivery from one host to the other. The opposite direction is not changed."""
        self._cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        """Mend a link; waiting messages are delivered after a delay."""
        self._cuts.discard((source, target))
        self._retry()

    def mend_all(self) -> None:
        """Mend every link, and make most messages quick."""
        self.slow_share = min(self.slow_share, _SLOW_SHARE)
        self._cuts.clear()
        self._loss_shares.clear()
        self._traps.clear()
        self._retry()

    def lose(self, source: str, target: str, share: float) -> None:
        """Break connections in place of a share of the deliveries from one host to the other, from now on."""
        self._loss_shares[source, target] = share

    def loses(self, source: str, target: str) -> bool:
        """Return whether a connection between these hosts breaks in place of the delivery of some data."""
        share = self._loss_shares.get((source, target), 0.0)
        return share > 0 and self.random.random() < share

    def hold_next(self, source: str, api_key: int, for_s: float) -> "asyncio.Future[None]":
        """Hold the next request of a kind that a host sends, with all that follows it on its connection.

        The result is done when the host has sent it.
        """
        trap = self._traps[source] = _Trap(api_key, for_s, self.loop.create_future())
        return trap.caught

    def catch(self, source: str, data: bytes) -> float:
        """Return for how many seconds to hold what a host sends, because it is the request to be held; else 0."""
        trap = self._traps.get(source)
        if trap is None or int.from_bytes(data[_API_KEY], "big") != trap.api_key:
            return 0.0
        del self._traps[source]
        if not trap.caught.done():
            trap.caught.set_result(None)
        return trap.for_s

    def power_off(self, host: str) -> None:
        """Turn a host off without notice; its peers get resets when they send after it is back."""
        self._down.add(host)
        self._forget(host, lambda transport: transport.vanish())

    def power_on(self, host: str) -> None:
        """Turn a host on; messages to its old connections are answered with resets."""
        self._down.discard(host)
        self._retry()

    def end(self, process: Process) -> None:
        """Close the connections and listeners of a killed program, as the kernel does."""
        for transport in [transport for transport in self.transports if transport.process is process]:
            transport.die()
        for listener in [listener for listener in self._listeners.values() if listener.process is process]:
            self.unlisten(listener)

    def is_open(self, source: str, target: str) -> bool:
        """Return whether messages get from one host to the other now."""
        return (source, target) not in self._cuts and source not in self._down and target not in self._down

    def _forget(self, host: str, end: Callable[[SimTransport], None]) -> None:
        for transport in [transport for transport in self.transports if transport.local[0] == host]:
            end(transport)
        for listener in [listener for listener in self._listeners.values() if listener.address[0] == host]:
            self.unlisten(listener)

    # --- carrying

    def carry(self, source: str, target: str, action: Callable[[], None]) -> None:
        """Run `action` at the other end when the message arrives; while the link is down, the message waits."""
        self.loop.call_at(self.arrival_s(), self._arrive, _Waiting(source, target, action), context=Context())

    def arrival_s(self) -> float:
        """Return the arrival time of a message that is sent now."""
        is_slow = self.random.random() < self.slow_share
        return self.loop.time() + self.random.uniform(*(_SLOW_LATENCY_S if is_slow else _LATENCY_S))

    def _arrive(self, message: _Waiting) -> None:
        if self.is_open(message.source, message.target):
            message.action()
        elif message.source not in self._down:
            self._waiting.append(message)

    def wait_open(self, source: str, target: str, action: Callable[[], None]) -> None:
        """Run `action` when links or hosts are up again."""
        self._waiting.append(_Waiting(source, target, action))

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            when_s = self.loop.time() + self.random.uniform(0, _RETRY_S_MAX)
            self.loop.call_at(when_s, self._arrive, message, context=Context())

    # --- listening and connecting

    def listen(self, factory: Callable[[], Any], host: str | None, port: int | None) -> Listener:
        """Listen on a port of the current program's host."""
        process = PROCESS.get()
        name = host or (process.host if process is not None else WORLD)
        address = (name, port or self._next_port(name))
        if address in self._listeners:
            raise OSError(98, "Address already in use")
        self._listeners[address] = Listener(self, address, factory)
        return self._listeners[address]

    def unlisten(self, listener: Listener) -> None:
        """Close a port."""
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def connect(self, factory: Callable[[], Any], host: str, port: int) -> tuple[SimTransport, Any]:
        """Connect the current program's host to a port of another host."""
        process = PROCESS.get()
        here = process.host if process is not None else WORLD
        local: Address = (here, self._next_port(here))
        answer = self.loop.create_future()
        self.carry(here, host, lambda: self._accept(process, local, (host, port), answer))
        transport: SimTransport = await answer
        transport.context = copy_context()
        protocol = factory()
        transport.start(protocol)
        return transport, protocol

    def _accept(self, process: Process | None, source: Address, target: Address, answer: "asyncio.Future[Any]") -> None:
        """Accept a connection request, or refuse it if no program listens."""
        listener = self._listeners.get(target)
        if listener is None:
            refusal = ConnectionRefusedError(111, "Connection refused")
            self.carry(target[0], source[0], lambda: None if answer.done() else answer.set_exception(refusal))
            return
        client, server = join(self, source, target)
        client.process = process
        server.process, server.context = listener.process, listener.context
        # The kernel accepts at once; the program learns of it in a step of its own.
        self.loop.call_at(self.loop.time(), lambda: server.start(listener.factory()), context=server.context.copy())

        def answered() -> None:
            if answer.done() or (process is not None and not process.is_alive):
                client.die()
            else:
                answer.set_result(client)

        self.carry(target[0], source[0], answered)

    def _next_port(self, host: str) -> int:
        self._ports[host] = self._ports.get(host, FIRST_PORT) + 1
        return self._ports[host]
