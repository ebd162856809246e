"""The controller's background work: elections after changes of the cluster, and the balance of leaders."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from tailrace.base.limits import SETTLE_AGAIN_S
from tailrace.base.sentinel import NO_BROKER
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import (
    OutcomeUnknown,
    SessionState,
)
from tailrace.machines.controller.departure import decide_unregister, leaving
from tailrace.machines.controller.election import RuleOf
from tailrace.machines.controller.record import (
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    PartitionRecord,
    Record,
    TopicHidden,
    TopicRecord,
)
from tailrace.machines.controller.settle import settle
from tailrace.protocol.errors import ApiError
from tailrace.runtime.controller.controller import CONFLICTS, Controller
from tailrace.runtime.controller.election import ControllerElection
from tailrace.storage.error import StorageError

log = logging.getLogger("tailrace.runtime")


class Settlement:
    """Decides leaders, ISRs and admissions after changes of the cluster, while this broker is the controller."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        election: ControllerElection,
        controller: Controller,
        rule_of: RuleOf,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._metadata = metadata
        self._election = election
        self._controller = controller
        self._rule_of = rule_of
        self._config = config
        self._names: set[str] = set()
        self._is_everything_due = True
        self._due = asyncio.Event()
        metadata.store.on_session(self._on_session)

    def on_records(self, records: Sequence[Record]) -> None:
        """Note for which topics there may be something to decide."""
        for record in records:
            match record:
                case BrokerRecord() | BrokerRemoved() | ControllerRecord() | ConfigRecord(kind=ConfigKind.BROKER):
                    self._is_everything_due = True
                case PartitionRecord(topic=name, leader=leader):
                    if leader == NO_BROKER or self._is_moving(name):
                        self._names.add(name)
                case TopicRecord(name=name) | TopicHidden(name=name) | ConfigRecord(kind=ConfigKind.TOPIC, name=name):
                    self._names.add(name)
        if self._names or self._is_everything_due:
            self._due.set()

    async def run(self) -> None:
        """Settle after every change that may need a decision, for ever."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._election.is_controller:
                await self.settle_once()

    async def settle_once(self) -> None:
        """Settle the topics that are due. Those that could not be settled stay due."""
        names = None if self._is_everything_due else self._names
        self._is_everything_due, self._names = False, set()
        try:
            async with self._controller.turn:
                if names is None:
                    await self._metadata.mend_topic_ids(self._election.guard)
                for group in settle(self._metadata.image, self._rule_of, names):
                    await self._controller.commit(group)
                await self._finish_removals()
        except CONFLICTS:
            # A leader or another controller wrote first, and the image has its change.
            self._is_everything_due = True
            self._due.set()
            await asyncio.sleep(SETTLE_AGAIN_S)
        except OutcomeUnknown:
            self._is_everything_due = True  # and settled when the store is connected again
        except StorageError as error:
            self._is_everything_due = True  # and settled after the next change
            log.error("the controller could not write its decisions: %s", error)
        except Exception:
            self._is_everything_due = True
            self._due.set()
            raise

    async def _finish_removals(self) -> None:
        """Continue removals of brokers that an earlier controller began."""
        image = self._metadata.image
        for broker_id in leaving(image):
            while broker_id in image.admitted and broker_id not in image.brokers:
                await self._controller.commit(decide_unregister(image, broker_id, self._rule_of))

    async def balance(self) -> None:
        """Elect preferred leaders periodically, for ever."""
        while True:
            await asyncio.sleep(self._config().leader_imbalance_check_interval_seconds)
            if self._config().auto_leader_rebalance_enable and self._election.is_controller:
                try:
                    await self._controller.balance_leaders(self._config().leader_imbalance_per_broker_percentage)
                except ApiError as error:
                    log.warning("preferred leaders could not be elected: %s", error)

    def _is_moving(self, name: str) -> bool:
        topic = self._metadata.image.topics.get(name)
        return topic is not None and bool(topic.adding or topic.removing)

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self._is_everything_due:
            self._due.set()
