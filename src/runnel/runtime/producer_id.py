"""Producer ids: unique in the cluster, handed out from blocks that a broker reserves."""

import asyncio
import json

from runnel.base.limits import PRODUCER_ID_BLOCK_SIZE
from runnel.coordination.layout import PRODUCER_ID_BLOCK
from runnel.coordination.store import BadVersionError, Create, MetadataStore, NodeExistsError, OutcomeUnknown, Put
from runnel.protocol.errors import ApiError, ErrorCode


class ProducerIds:
    """The next id; a new block is reserved durably before its first id is given out."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._turn = asyncio.Lock()
        self._next = self._end = 0

    async def next(self) -> int:
        """An id that nobody has had."""
        await self.ready()
        return self.take()

    async def ready(self) -> None:
        """Return when there is an id to take."""
        while self._next == self._end:
            async with self._turn:
                if self._next == self._end:
                    await self._reserve()

    def take(self) -> int:
        """An id that nobody has had, without waiting; ApiError if a new block has to be reserved first."""
        if self._next == self._end:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is left of the block")
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
            return  # another broker was faster; look again
        except OutcomeUnknown as error:
            # Perhaps the block is reserved; then nobody uses it.
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the metadata store is out of reach") from error
        self._next, self._end = start, end
