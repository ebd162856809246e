"""Producer ids: unique in the cluster, taken from blocks that a broker reserves."""

import asyncio
import json

from tailrace.base.invariant import invariant
from tailrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from tailrace.coordination.layout import PRODUCER_ID_BLOCK
from tailrace.coordination.store import BadVersionError, Create, MetadataStore, NodeExistsError, OutcomeUnknown, Put
from tailrace.protocol.errors import ApiError, ErrorCode


class ProducerIds:
    """Hands out producer ids; a block is reserved durably before its first id is used."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._turn = asyncio.Lock()
        self._next = self._end = 0

    async def next(self) -> int:
        """Return an unused id."""
        await self.ready()
        return self.take()

    async def ready(self) -> None:
        """Reserve a block if no id is left."""
        while self._next == self._end:
            async with self._turn:
                if self._next == self._end:
                    await self._reserve()

    def take(self) -> int:
        """Return an unused id without waiting; raise ApiError if a block has to be reserved first."""
        if self._next == self._end:
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is left; the broker reserves a new block"
            )
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _reserve(self) -> None:
        node = await self._store.get(PRODUCER_ID_BLOCK)
        start = json.loads(node.value)["block_end"] + 1 if node else 0
        end = start + PRODUCER_ID_BLOCK_SIZE
        block = {"version": 1, "broker": self._broker_id, "block_start": start, "block_end": end - 1}
        value = json.dumps(block).encode()
        write = Put(PRODUCER_ID_BLOCK, value, node.version) if node else Create(PRODUCER_ID_BLOCK, value)
        try:
            await self._store.commit([write])
        except (BadVersionError, NodeExistsError):
            return  # another broker reserved a block first; the caller tries again
        except OutcomeUnknown as error:
            # If the block was reserved after all, it stays unused.
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the metadata store cannot be reached") from error
        invariant(start >= self._end, f"producer ids from {start} are reserved again; ids below {self._end} are in use")
        self._next, self._end = start, end
