"""The election of the controller.

The broker that creates the node `/controller` is the controller until its session ends. In the same commit it raises
`/controller_epoch`, and every later commit of the controller is conditional on the version of that node: a controller
that was paused and replaced without noticing cannot write anything.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tailrace.base.invariant import invariant
from tailrace.base.limits import SETTLE_AGAIN_S
from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.layout import CONTROLLER_EPOCH, node_of
from tailrace.coordination.store import (
    BadVersionError,
    Check,
    Create,
    NodeExistsError,
    NoNodeError,
    Operation,
    OutcomeUnknown,
    Put,
)
from tailrace.machines.controller.record import BrokerRecord, ControllerRecord, ControllerRemoved, Record
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.runtime")


class ControllerElection:
    """Stands for election whenever there is no controller."""

    def __init__(self, metadata: ClusterMetadata, broker_id: int, may_stand: Callable[[], bool]) -> None:
        """`may_stand` returns whether this broker is registered, without which other brokers do not know it."""
        self._metadata = metadata
        self._broker_id = broker_id
        self._may_stand = may_stand
        self._epoch = self._version = -1
        self._moved = asyncio.Event()

    @property
    def is_controller(self) -> bool:
        """Whether this broker was elected and knows of no later controller."""
        image = self._metadata.image
        return image.controller_id == self._broker_id and image.controller_epoch == self._epoch

    @property
    def guard(self) -> Operation:
        """The condition of the controller's commits: it fails once another controller was elected."""
        # ANY_VERSION is -1, so before an election the condition would always hold.
        invariant(self._version >= 0, f"broker {self._broker_id} commits as controller and was never elected")
        return Check(CONTROLLER_EPOCH, self._version)

    def on_records(self, records: Sequence[Record]) -> None:
        """Note controllers that come and go."""
        if any(isinstance(record, ControllerRecord | ControllerRemoved | BrokerRecord) for record in records):
            self._moved.set()

    async def run(self) -> None:
        """Stand for election whenever there is no controller, for ever."""
        while True:
            try:
                await self.stand_while_vacant()
            except StorageError as error:
                log.error("broker %d cannot become the controller: %s", self._broker_id, error)
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
            return  # perhaps this broker itself, in an attempt whose answer was lost
        node = await store.get(CONTROLLER_EPOCH)
        epoch, version = (int(node.value) + 1, node.version + 1) if node else (1, 0)
        text = str(epoch).encode()
        raised = Put(CONTROLLER_EPOCH, text, node.version) if node else Create(CONTROLLER_EPOCH, text)
        path, value = node_of(ControllerRecord(self._broker_id, epoch))
        # Set before the commit, because watchers are notified before it returns.
        self._epoch, self._version = epoch, version
        try:
            await store.commit([raised, Create(path, value, is_ephemeral=True)])
        except (NodeExistsError, NoNodeError, BadVersionError):
            return  # another broker was elected, and the image has it
        except OutcomeUnknown:
            await asyncio.sleep(SETTLE_AGAIN_S)  # the image will tell whether this broker was elected
            return
        log.info("broker %d is the controller, in epoch %d", self._broker_id, epoch)
