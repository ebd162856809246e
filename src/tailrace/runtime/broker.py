"""One broker: the services that request handlers work with, complete from the moment there is a `Broker`.

A broker is opened by `runtime.opener` and knows no sockets. The server layer puts listeners in front of it; tests and
the simulator may use it without them.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from tailrace.base.clock import Clock
from tailrace.base.metric import Registry
from tailrace.config.broker import BrokerConfig
from tailrace.config.group import GroupConfig
from tailrace.config.topic import TopicConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    BrokerAdmitted,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    Endpoint,
    Record,
)
from tailrace.machines.controller.topic import Defaults
from tailrace.machines.fetch_session import FetchSessions
from tailrace.runtime.background import BackgroundTasks
from tailrace.runtime.controller.channel import ControllerChannel
from tailrace.runtime.controller.controller import Controller
from tailrace.runtime.controller.forward import ControllerForward
from tailrace.runtime.controller.token import TokenSweep
from tailrace.runtime.controller.token_index import TokenIndex
from tailrace.runtime.group.coordinator import GroupCoordinators
from tailrace.runtime.live_config import LiveConfig
from tailrace.runtime.log.care import LogCare
from tailrace.runtime.log.compaction import LogCompaction
from tailrace.runtime.membership import Membership
from tailrace.runtime.producer_id import ProducerIds
from tailrace.runtime.replication.fetcher_pool import FetcherPool
from tailrace.runtime.replication.isr import IsrKeeper
from tailrace.runtime.replication.replicas import Replicas
from tailrace.runtime.replication.resignation import LeaderResignation
from tailrace.runtime.replication.throttle import ReplicationThrottle
from tailrace.runtime.schema.validation import SchemaValidation
from tailrace.runtime.transaction.coordinator import TransactionCoordinators
from tailrace.runtime.transaction.marker_write import MarkerWriter
from tailrace.runtime.transaction.verification import TransactionVerification
from tailrace.storage.log_dir import LogDir


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Broker:
    """The services of an open broker."""

    broker_id: int
    cluster_id: str
    decoy_secret: bytes = field(repr=False)  # empty without a listener with SASL
    live_config: LiveConfig
    clock: Clock
    metrics: Registry
    metadata: ClusterMetadata
    connection_count_max: int

    log_dirs: tuple[LogDir, ...]
    worker: Executor
    folder_worker: Executor  # folders change in one thread, so that checkpoints, creation and deletion never collide
    care: LogCare
    compaction: LogCompaction

    membership: Membership
    controller: Controller
    controller_forward: ControllerForward
    controller_channel: ControllerChannel
    token_index: TokenIndex

    replicas: Replicas
    fetchers: FetcherPool
    fetch_sessions: FetchSessions
    isr: IsrKeeper
    resignation: LeaderResignation
    leader_throttle: ReplicationThrottle

    producer_ids: ProducerIds
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    marker_writer: MarkerWriter
    verification: TransactionVerification
    schema_validation: SchemaValidation

    background: BackgroundTasks
    undo: AsyncExitStack  # what the opener did, step by step

    # --- the life of a broker

    def advertise(self, endpoints: Sequence[Endpoint]) -> None:
        """Set where clients and other brokers find this broker, before it joins the cluster."""
        self.membership.registration.advertise(endpoints)

    async def join(self) -> None:
        """Become a member of the cluster; the broker leads partitions from here on."""
        await self.membership.join(self.background.start)
        self.background.start(TokenSweep(self.controller, self.image, self.clock, self.live_config.current).run)
        self.groups.start()
        self.transactions.start()

    async def leave(self) -> None:
        """Hand leadership over to other brokers, if there are any. The broker still serves; call `stop` next."""
        await self.membership.leave()

    async def stop(self) -> None:
        """Stop cleanly: everything written is flushed, and the next start need not scan any log."""
        await self.undo.aclose()

    def on_records(self, records: Sequence[Record]) -> None:
        """Pass a change of the cluster image on to the services that depend on it."""
        if any(isinstance(record, ConfigRecord) and record.kind is ConfigKind.BROKER for record in records):
            self.live_config.refresh()
            self.fetchers.redistribute()
            # Topics inherit configs from the broker.
            records = [*records, *(ConfigRecord(ConfigKind.TOPIC, name, {}) for name in self.image.topics)]
        self.membership.on_records(records)
        self.controller_channel.on_records(records)
        self.replicas.on_records(records)
        if any(_may_change_leadership(record, self.broker_id) for record in records):
            self.replicas.assume_all_roles()
        self.fetchers.on_records(records)
        self.isr.on_records(records)
        self.groups.on_records(records)
        self.transactions.on_records(records)

    # --- what handlers look up

    @property
    def config(self) -> BrokerConfig:
        """The broker's configuration as it is now."""
        return self.live_config.current()

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it."""
        return self.metadata.image

    @property
    def registered(self) -> BrokerRecord:
        """What other brokers know of this broker, or will know once it has joined."""
        return self.membership.registration.announced

    def topic_config(self, name: str) -> TopicConfig:
        """Return a topic's configuration: its own configs, else the broker's, else the defaults."""
        return self.live_config.topic(name)

    def group_config(self, group_id: str) -> GroupConfig:
        """Return a group's configuration: its own configs, else the broker's, else the defaults."""
        return self.live_config.group(group_id)

    @property
    def topic_defaults(self) -> Defaults:
        """The partition count and replication factor of a topic that is created without them."""
        return self.live_config.topic_defaults


def _may_change_leadership(record: Record, broker_id: int) -> bool:
    """Whether a record may change which partitions a broker is allowed to lead."""
    return isinstance(record, BrokerRecord | BrokerRemoved | BrokerAdmitted) and record.broker_id == broker_id
