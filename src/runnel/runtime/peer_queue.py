"""What a broker has to tell others, put together: while one request is under way the next one grows."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from runnel.base.limits import PEER_ANSWER_MS, PEER_BATCH_COUNT_MAX
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.machines.controller.image import ClusterImage
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.message import Message
from runnel.runtime.peer import Peer

log = logging.getLogger("runnel.runtime")

T = TypeVar("T")
M = TypeVar("M", bound=Message)

LOST = (BrokerUnavailable, RequestTimeout, RemoteProtocolError, OSError)
"""What says that nobody knows whether a peer has got a request."""


class PeerQueue(Generic[T]):
    """Items for other brokers, sent in batches, one request at a time to each."""

    def __init__(
        self,
        peer_of: Callable[[int], Peer],
        send: Callable[[Peer, list[T]], Awaitable[None]],
        give_back: Callable[[list[T], Exception], None],
    ) -> None:
        """`send` delivers some items and sees to what becomes of each.

        What it raises is a bug of ours. The items are given back then, so that whoever waits for one hears of it; some
        of them may have been delivered.
        """
        self._peer_of = peer_of
        self._send = send
        self._give_back = give_back
        self._waiting: dict[int, list[T]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._peers: dict[int, Peer] = {}

    def add(self, broker_id: int, item: T) -> None:
        """Send an item to a broker as soon as it can be sent."""
        self._waiting.setdefault(broker_id, []).append(item)
        if broker_id not in self._tasks:
            self._tasks[broker_id] = asyncio.get_running_loop().create_task(self._run(broker_id))

    async def stop(self) -> None:
        """Send no more."""
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
                # What waits behind these items must not be lost with them.
                log.exception("what was to be told to broker %d is lost", broker_id)


def peers_of(image: ClusterImage, listener_name: str, client_id: str) -> Callable[[int], Peer]:
    """Makes peers of brokers by their ids."""
    return lambda broker_id: Peer(image, broker_id, listener_name, client_id)


async def ask_peer(peer: Peer, request: Message, reply_type: type[M]) -> M:
    """Ask over the peer's connection; raises one of `LOST`."""
    connection = await peer.connect()
    return await connection.request(request, reply_type, timeout_ms=PEER_ANSWER_MS)
