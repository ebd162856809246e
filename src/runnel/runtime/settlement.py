"""When the controller looks at the cluster: after each change that may leave something to do, and now and then."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from runnel.base.limits import SETTLE_AGAIN_S
from runnel.config.broker import BrokerConfig
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OutcomeUnknown,
    SessionState,
)
from runnel.machines.controller.departure import decide_unregister, leaving
from runnel.machines.controller.election import RuleOf
from runnel.machines.controller.record import (
    NO_BROKER,
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
from runnel.machines.controller.settle import settle
from runnel.protocol.errors import ApiError
from runnel.runtime.controller import Controller
from runnel.runtime.election import ControllerElection
from runnel.storage.error import StorageError

log = logging.getLogger("runnel.runtime")

_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)


class Settlement:
    """Settles what brokers leave behind, while this broker is the controller."""

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
        """Take note of what there may be to do."""
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
        """Settle whenever there may be something to do, for ever."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._election.is_controller:
                await self.settle_once()

    async def settle_once(self) -> None:
        """Settle what is due. What could not be done stays due."""
        names = None if self._is_everything_due else self._names
        self._is_everything_due, self._names = False, set()
        try:
            async with self._controller.turn:
                for group in settle(self._metadata.image, self._rule_of, names):
                    await self._controller.commit(group)
                await self._forget_who_left()
        except _CONFLICTS:
            # A leader was faster, or there is another controller. The image knows.
            self._is_everything_due = True
            self._due.set()
            await asyncio.sleep(SETTLE_AGAIN_S)
        except OutcomeUnknown:
            self._is_everything_due = True  # and done when the store is back
        except StorageError as error:
            self._is_everything_due = True  # and done after the next change
            log.error("the controller cannot write its decisions: %s", error)
        except Exception:
            self._is_everything_due = True
            self._due.set()
            raise

    async def _forget_who_left(self) -> None:
        """Go on where a controller failed while it sent a broker away."""
        image = self._metadata.image
        for broker_id in leaving(image):
            while broker_id in image.admitted and broker_id not in image.brokers:
                await self._controller.commit(decide_unregister(image, broker_id, self._rule_of))

    async def balance(self) -> None:
        """Bring leaders back to the brokers that should lead, now and then, for ever."""
        while True:
            await asyncio.sleep(self._config().leader_imbalance_check_interval_seconds)
            if self._config().auto_leader_rebalance_enable and self._election.is_controller:
                try:
                    await self._controller.balance_leaders(self._config().leader_imbalance_per_broker_percentage)
                except ApiError as error:
                    log.warning("leaders could not be brought back to their brokers: %s", error)

    def _is_moving(self, name: str) -> bool:
        topic = self._metadata.image.topics.get(name)
        return topic is not None and bool(topic.adding or topic.removing)

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self._is_everything_due:
            self._due.set()
