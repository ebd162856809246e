"""What producers have sent on connections that are reset at their end alone: it arrives at the worst moment.

A proxy on the way may reset the client's end of a connection and deliver later what the client had sent. The broker
cannot know that the client has given this up. So it may write a batch that the producer has sent again meanwhile, and
has given up since. That does most harm between the rejection of a later batch as out of order and the start of other
sequence numbers.
"""

import asyncio
from collections.abc import Collection, Iterable
from contextvars import Context
from functools import partial

from tailrace.protocol.errors import ErrorCode
from tailrace.sim.network import Network
from tailrace.sim.transport import SimTransport

_LIMITS = frozenset({ErrorCode.INVALID_TIMESTAMP, ErrorCode.MESSAGE_TOO_LARGE})
"""Errors of batches that are larger, older or newer than a topic allows."""


class Stranding:
    """Strands connections, and looks at the answers of brokers to producers."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._stranded: list[SimTransport] = []
        self._refusal: asyncio.Future[None] | None = None

    def strand(self, hosts: Collection[str], after_s: float, for_s: float) -> None:
        """Hold what these hosts send on their connections, reset their ends after some time, and deliver it later."""
        found = [transport for transport in self._network.transports if transport.local[0] in hosts]
        self._stranded += found
        loop = self._network.loop
        for transport in found:
            transport.hold(after_s + for_s)
            loop.call_at(loop.time() + after_s, partial(transport.strand, for_s), context=Context())

    async def wait_refused(self, timeout_s: float) -> None:
        """Wait until a broker has rejected a batch because of a limit, for a time at most."""
        self._refusal = self._network.loop.create_future()
        await asyncio.wait([self._refusal], timeout=timeout_s)
        self._refusal = None

    def refused(self, host: str, errors: Iterable[ErrorCode]) -> None:
        """Take in the errors in the answer of a broker to a producer."""
        for error in errors:
            if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._release(host)
            elif error in _LIMITS and self._refusal is not None and not self._refusal.done():
                self._refusal.set_result(None)

    def _release(self, host: str) -> None:
        """Deliver now what is held for a host."""
        released = [transport for transport in self._stranded if transport.remote[0] == host]
        self._stranded = [transport for transport in self._stranded if transport not in released]
        for transport in released:
            transport.release()
