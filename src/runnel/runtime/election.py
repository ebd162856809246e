"""Which broker is the controller.

Whoever makes the node `/controller` is, until its session ends. In the same step it raises `/controller_epoch`, and
every later commit of the controller is conditional on the version that it left there: a controller that was
paused and succeeded without noticing can write nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from runnel.base.limits import SETTLE_AGAIN_S
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.layout import CONTROLLER_EPOCH, node_of
from runnel.coordination.store import (
    BadVersionError,
    Check,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    OutcomeUnknown,
    Put,
)
from runnel.machines.controller.record import NO_BROKER, BrokerRecord, ControllerRecord, ControllerRemoved, Record
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")


class ControllerElection:
    """Stands for election whenever there is no controller."""

    def __init__(self, metadata: ClusterMetadata, broker_id: int, may_stand: Callable[[], bool]) -> None:
        """`may_stand` says whether this broker is registered; others would not know it otherwise."""
        self._metadata = metadata
        self._broker_id = broker_id
        self._may_stand = may_stand
        self._epoch = self._version = -1
        self._moved = asyncio.Event()

    @property
    def is_controller(self) -> bool:
        """Whether this broker was elected and has heard of no other since."""
        image = self._metadata.image
        return image.controller_id == self._broker_id and image.controller_epoch == self._epoch

    @property
    def guard(self) -> Operation:
        """What makes a commit fail once there is another controller."""
        return Check(CONTROLLER_EPOCH, self._version)

    def on_records(self, records: Sequence[Record]) -> None:
        """Take note of controllers that come and go."""
        if any(isinstance(record, ControllerRecord | ControllerRemoved | BrokerRecord) for record in records):
            self._moved.set()

    async def run(self) -> None:
        """Stand for election whenever there is no controller, for ever."""
        while True:
            try:
                await self.stand_while_vacant()
            except StorageError as error:
                log.error("this broker cannot become the controller: %s", error)
            await self._moved.wait()
            self._moved.clear()

    async def stand_while_vacant(self) -> None:
        """Stand for election until there is a controller."""
        while self._metadata.image.controller_id == NO_BROKER and self._may_stand():
            await self._stand()

    async def _stand(self) -> None:
        store = self._metadata.store
        await store.wait_connected()
        if self._metadata.image.controller_id != NO_BROKER:
            return  # perhaps this broker itself, by an attempt whose answer was lost
        node = await store.get(CONTROLLER_EPOCH)
        epoch, version = (int(node.value) + 1, node.version + 1) if node else (1, 0)
        text = str(epoch).encode()
        raised = Put(CONTROLLER_EPOCH, text, node.version) if node else Create(CONTROLLER_EPOCH, text)
        path, value = node_of(ControllerRecord(self._broker_id, epoch))
        # Before the commit, because its watchers are told before it returns.
        self._epoch, self._version = epoch, version
        try:
            await store.commit([raised, Create(path, value, is_ephemeral=True)])
        except (NodeExistsError, NoNodeError, BadVersionError):
            return  # another broker was faster, and the image knows
        except OutcomeUnknown:
            await asyncio.sleep(SETTLE_AGAIN_S)  # the image will say
            return
        log.info("this broker is the controller, in epoch %d", epoch)
