"""Batches of items for other brokers: while one request is under way, the next batch is collected."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from tailrace.base.limits import PEER_ANSWER_MS, PEER_BATCH_COUNT_MAX
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.machines.controller.image import ClusterImage
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message
from tailrace.runtime.peer import Peer
from tailrace.runtime.peer_route import PeerRoute

log = logging.getLogger("tailrace.runtime")

T = TypeVar("T")
M = TypeVar("M", bound=Message)

LOST = (BrokerUnavailable, RequestTimeout, RemoteProtocolError, OSError)
"""Errors after which it is unknown whether the peer received a request."""


class PeerQueue(Generic[T]):
    """Items for other brokers, sent in batches, one request at a time to each."""

    def __init__(
        self,
        peer_of: Callable[[int], Peer],
        send: Callable[[Peer, list[T]], Awaitable[None]],
        give_back: Callable[[list[T], Exception], None],
    ) -> None:
        """`send` delivers items and handles the outcome of each; an exception that it raises is a bug.

        Then `give_back` gets the items, to notify those that wait for them; some may have been delivered.
        """
        self._peer_of = peer_of
        self._send = send
        self._give_back = give_back
        self._waiting: dict[int, list[T]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._peers: dict[int, Peer] = {}

    def add(self, broker_id: int, item: T) -> None:
        """Send an item to a broker with the next batch."""
        self._waiting.setdefault(broker_id, []).append(item)
        if broker_id not in self._tasks:
            self._tasks[broker_id] = asyncio.get_running_loop().create_task(self._run(broker_id))

    async def stop(self) -> None:
        """Stop sending."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._waiting.clear()
        for peer in self._peers.values():
            await peer.close()

    async def _run(self, broker_id: int) -> None:
        try:
            while waiting := self._waiting.pop(broker_id, None):
                batch, rest = waiting[:PEER_BATCH_COUNT_MAX], waiting[PEER_BATCH_COUNT_MAX:]
                if rest:
                    self._waiting[broker_id] = rest
                await self._send_batch(broker_id, batch)
        finally:
            del self._tasks[broker_id]

    async def _send_batch(self, broker_id: int, batch: list[T]) -> None:
        try:
            if broker_id not in self._peers:
                self._peers[broker_id] = self._peer_of(broker_id)
            await self._send(self._peers[broker_id], batch)
        except Exception as error:
            try:
                self._give_back(batch, error)
            except Exception:
                # Items that were added later must not be lost with these.
                log.exception("%d items for broker %d are lost", len(batch), broker_id)


def peers_of(image: ClusterImage, route: PeerRoute, client_id: str) -> Callable[[int], Peer]:
    """Return a function that makes the peer for a broker id."""
    return lambda broker_id: Peer(image, broker_id, route, client_id)


async def ask_peer(peer: Peer, request: Message, reply_type: type[M]) -> M:
    """Send a request over the peer's connection; raise one of `LOST` if the answer is lost."""
    connection = await peer.connect()
    return await connection.request(request, reply_type, timeout_ms=PEER_ANSWER_MS)
