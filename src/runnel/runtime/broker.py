"""One broker: its configuration, its metadata, its logs and the tasks that look after them.

It knows no sockets. The server layer puts listeners in front of it; tests and the simulator
may call it as it is.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from uuid import uuid4

from runnel.base.clock import Clock, SystemClock
from runnel.base.limits import FETCH_SESSION_EVICTION_MS, SYNCING_LOGS_MAX, WORKER_THREADS_MAX
from runnel.base.metric import Registry
from runnel.base.undo import undone_by
from runnel.config.broker import BrokerConfig
from runnel.config.group import GroupConfig
from runnel.config.topic import TopicConfig
from runnel.coordination.cluster import ClusterMetadata
from runnel.coordination.store import MetadataStore
from runnel.machines.controller.election import Rule
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import (
    CLUSTER_DEFAULT,
    BrokerAdmitted,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    Endpoint,
    Record,
)
from runnel.machines.controller.topic import Defaults
from runnel.machines.fetch_session import FetchSessions
from runnel.runtime.cluster_id import load_cluster_id
from runnel.runtime.controller_channel import ControllerChannel, ask_by_connection
from runnel.runtime.controller_forward import ControllerForward
from runnel.runtime.descriptor import share_descriptors
from runnel.runtime.endless import run_endless
from runnel.runtime.fetcher_pool import FetcherPool
from runnel.runtime.group_coordinator import GroupCoordinators
from runnel.runtime.isr import IsrKeeper
from runnel.runtime.leadership import ReplicaWorld
from runnel.runtime.lease import Lease
from runnel.runtime.log_care import LogCare
from runnel.runtime.log_compaction import LogCompaction
from runnel.runtime.log_metric import LogGauges
from runnel.runtime.marker_write import MarkerWriter
from runnel.runtime.membership import Membership
from runnel.runtime.metadata_store import open_store
from runnel.runtime.partition import Partition
from runnel.runtime.peer_queue import peers_of
from runnel.runtime.producer_id import ProducerIds
from runnel.runtime.registration import UNCLEAN
from runnel.runtime.replicas import Replicas, log_config
from runnel.runtime.replication_throttle import ReplicationThrottle
from runnel.runtime.transaction_coordinator import TransactionCoordinators
from runnel.runtime.transaction_marker import MarkerSender
from runnel.runtime.transaction_metric import ProducerGauges
from runnel.runtime.transaction_verification import TransactionVerification
from runnel.storage.checkpoint import CleanStop
from runnel.storage.error import StorageError
from runnel.storage.folder_identity import find_new_folders, read_identity, write_identity
from runnel.storage.fs import FileSystem, RealFileSystem
from runnel.storage.handle_pool import HandlePool
from runnel.storage.log_dir import LogDir

log = logging.getLogger("runnel.runtime")


class Broker:
    """Everything that a broker is, from `start` to `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        store: MetadataStore | None = None,
    ) -> None:
        self.static_config = self.config = config
        self.clock: Clock = clock or SystemClock()
        self.endpoints: tuple[Endpoint, ...] = ()  # where the listeners are, set by whoever opens them
        self.cluster_id = ""
        self.metrics = Registry()
        self._fs: FileSystem = fs or RealFileSystem()
        self._given_store = store
        self._store: MetadataStore | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.log_dirs: list[LogDir] = []
        self.descriptors = share_descriptors()
        self.handles = HandlePool(self.descriptors.segment_count_max)

    @property
    def broker_id(self) -> int:
        return self.config.node_id

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image

    @property
    def registered(self) -> BrokerRecord:
        """What others know of this broker, or will know once it has joined."""
        endpoints = self.endpoints or self._configured_endpoints()
        return self.membership.registration.record or BrokerRecord(
            self.broker_id, -1, endpoints, self.config.broker_rack
        )

    async def start(self) -> None:
        """Open the broker and have it join its cluster."""
        await self.open()
        await self.join()

    async def open(self) -> None:
        """Open the logs and the metadata; recovery of an unclean stop happens here."""
        self.worker = ThreadPoolExecutor(WORKER_THREADS_MAX, thread_name_prefix="runnel-worker")
        # Folders change in one thread, so that checkpoints, creation and deletion never meet.
        self._folder_worker = ThreadPoolExecutor(1, thread_name_prefix="runnel-folder")
        async with undone_by(self.stop):
            await self._open()

    async def _open(self) -> None:
        self._store = self._given_store or await open_store(self.config, self._fs, self.clock)
        self.metadata = ClusterMetadata(self._store)
        await self.metadata.load()
        self._apply_dynamic_config()
        await self._open_folders()
        self._make_membership()
        self._make_replicas()
        for name in list(self.image.topics):
            await self.replicas.reconcile(name)
        self._set_strays_aside()
        self._make_coordinators()
        self.metadata.listen(self._on_records)
        self.replicas.review()
        self._start_care()

    async def _open_folders(self) -> None:
        # All folders are looked at before any of them is touched.
        folders = [str(path) for path in self.config.log_directories]
        claims = (read_identity(self._fs, folder) for folder in folders)
        self.cluster_id = await load_cluster_id(self.metadata.store, next(filter(None, claims), None))
        new_folders = find_new_folders(self._fs, folders, self.cluster_id, self.broker_id)
        await self._open_log_dirs()
        tell = partial(asyncio.get_running_loop().call_soon_threadsafe, self._on_failed_folder)
        for log_dir in self.log_dirs:
            log_dir.when_offline(tell)
        for folder in new_folders:
            write_identity(self._fs, folder, self.cluster_id, self.broker_id, uuid4())
        self.handles.defer = self.worker.submit

    def _make_membership(self) -> None:
        self.membership = Membership(self.metadata, lambda: self.config, self._rule_of, self._carried_out)
        self.controller = self.membership.controller
        self.controller_forward = ControllerForward(self.image, self.config.inter_broker_listener.name, self.broker_id)
        self.controller_channel = ControllerChannel(
            self.image,
            lambda: self.membership.election.is_controller,
            lambda new: self.controller.create_topic(new, self.topic_defaults),
            ask_by_connection(self.image, self.config.inter_broker_listener.name, self.broker_id),
        )

    def _make_replicas(self) -> None:
        self.isr = IsrKeeper(self.metadata, self.config.replica_lag_time_max_ms, self._partitions)
        self.leader_throttle = ReplicationThrottle(
            self.broker_id,
            self.clock,
            lambda: self.config.leader_replication_throttled_rate,
            lambda config: config.leader_replication_throttled_replicas,
        )
        follower_throttle = ReplicationThrottle(
            self.broker_id,
            self.clock,
            lambda: self.config.follower_replication_throttled_rate,
            lambda config: config.follower_replication_throttled_replicas,
        )
        self.fetchers = FetcherPool(
            self.broker_id, self.image, lambda: self.config, self.clock, self.worker, follower_throttle
        )
        self.replicas = Replicas(
            self.image,
            self.log_dirs,
            self.topic_config,
            self._folder_worker,
            self.worker,
            ReplicaWorld(self.broker_id, self.clock, self.config.replica_lag_time_max_ms, self.isr),
            self.fetchers,
            may_lead=self._may_lead,
            lease=self._lease(),
        )

    def _make_coordinators(self) -> None:
        self.producer_ids = ProducerIds(self.metadata.store, self.broker_id)
        self.groups = GroupCoordinators(
            lambda: self.config,
            self.clock,
            self.image,
            self.replicas,
            self.worker,
            self.controller_channel.create_topic,
            self.metrics,
        )
        self.marker_writer = MarkerWriter(self.clock, self.replicas, self.groups)
        peer_of = peers_of(self.image, self.config.inter_broker_listener.name, f"broker-{self.broker_id}-transactions")
        self.transactions = TransactionCoordinators(
            lambda: self.config,
            self.clock,
            self.image,
            self.replicas,
            self.worker,
            self.controller_channel.create_topic,
            self.producer_ids.take,
            MarkerSender(self.broker_id, self.image, self.marker_writer, peer_of),
            self.metrics,
        )
        self.verification = TransactionVerification(
            self.broker_id, lambda: self.config, self.clock, self.image, self.transactions, peer_of
        )

    def _start_care(self) -> None:
        self.fetch_sessions = FetchSessions(
            self.config.max_incremental_fetch_session_cache_slots,
            FETCH_SESSION_EVICTION_MS,
            lambda: random.randrange(1, 2**31),
        )
        self.care = LogCare(self.config, self.clock, self.replicas, self.log_dirs, self.worker, self._folder_worker)
        self.compaction = LogCompaction(
            lambda: self.config, self.clock, self.care.compacted, self.log_dirs, self._folder_worker
        )
        LogGauges(self.metrics, self.replicas.all, self.log_dirs, self.compaction)
        ProducerGauges(self.metrics, self.replicas.all, self.clock, lambda: self.config)
        spawn = asyncio.get_running_loop().create_task
        self._tasks = [
            spawn(run_endless(self.replicas.run)),
            spawn(run_endless(self.isr.run)),
            spawn(self.compaction.run()),
            *(spawn(task) for task in self.care.tasks()),
        ]

    async def join(self) -> None:
        """Become a member of the cluster; the broker leads from here on."""
        async with undone_by(self.stop):
            await self.membership.join(self.endpoints or self._configured_endpoints(), self._clean_stop())
            spawn = asyncio.get_running_loop().create_task
            self._tasks += [spawn(run_endless(task)) for task in self.membership.tasks()]
            await self.membership.admitted()
        self.groups.start()
        self.transactions.start()

    async def leave(self) -> None:
        """Have others lead, where there are others; the broker still serves, and `stop` comes next."""
        if self._tasks:
            await self.membership.leave()

    async def stop(self) -> None:
        """Stop cleanly: what is written is flushed, and the next start scans nothing."""
        await self.leave()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._tasks:
            await self.fetchers.stop()
            await self.isr.stop()
            await self.stop_coordinators()
            await self._end_flushes()
            await self.care.checkpoint_high_watermarks()
        self.handles.defer = None
        self._folder_worker.shutdown()
        self.worker.shutdown()
        with ThreadPoolExecutor(SYNCING_LOGS_MAX, thread_name_prefix="runnel-closing") as closing:
            for log_dir in self.log_dirs:
                try:
                    log_dir.close(stop=self._stop_to_mark(), spread=closing.map)
                except StorageError as error:
                    log.error("%s could not be closed cleanly: %s", log_dir.path, error)
        self.log_dirs = []
        self._tasks = []  # whoever could not start stops twice
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def stop_coordinators(self) -> None:
        """Send everybody away who waits for a group or a transaction."""
        await self.verification.stop()
        await self.transactions.stop()
        await self.groups.stop()

    def _partitions(self) -> list[Partition]:
        return self.replicas.all()

    def _on_failed_folder(self) -> None:
        """Lead nothing of what is on it, where others can, and follow nobody."""
        if self._tasks:
            self.replicas.assume_all_roles()
            self.isr.resign()

    def _may_lead(self) -> bool:
        """Whether the controller has dealt with the present registration."""
        return self.membership.registration.is_admitted

    async def _carried_out(self) -> None:
        await self.replicas.settled()

    def _lease(self) -> Lease | None:
        """None where the session with the store cannot end: an embedded one is this broker's own."""
        return (
            None
            if self.metadata.store.lease_until_ms() == inf
            else Lease(self.clock, self.metadata.store.lease_until_ms)
        )

    async def _end_flushes(self) -> None:
        """Let flushes end that nobody waits for, such as those of records sent without acks."""
        while ends := {partition.flush_end for partition in self.replicas.all()} - {None}:
            await asyncio.wait([end for end in ends if end is not None])

    def _clean_stop(self) -> CleanStop | None:
        """The clean stop of all folders, None if there was none or they do not agree."""
        stops = {log_dir.clean_stop for log_dir in self.log_dirs}
        return stops.pop() if len(stops) == 1 else None

    def _stop_to_mark(self) -> CleanStop:
        """What a clean stop writes on the folders; what they carried before, if the broker never tried to join."""
        if self._tasks and self.membership.registration.has_begun:
            return self.membership.registration.clean_stop
        return self._clean_stop() or CleanStop(UNCLEAN)

    def _configured_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the broker will be found, as far as the configuration says."""
        opened = self.config.broker_listeners
        told = [self.config.advertised_listener(each.name, each.port, default_host="") for each in opened]
        return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in told)

    def _rule_of(self, topic: str) -> Rule:
        config = self.topic_config(topic)
        return Rule(config.min_insync_replicas, config.unclean_leader_election_enable)

    async def _open_log_dirs(self) -> None:
        """Open all folders, at the same time: each may be on a disk of its own."""
        # Within one folder the logs come one after the other. Opening one is mostly Python, and threads gain nothing.
        run = asyncio.get_running_loop().run_in_executor
        opening = [run(self.worker, self._open_log_dir, path) for path in self.config.log_directories]
        opened = await asyncio.gather(*opening, return_exceptions=True)
        self.log_dirs += [log_dir for log_dir in opened if isinstance(log_dir, LogDir)]
        for failure in opened:
            if isinstance(failure, BaseException):
                raise failure

    def _open_log_dir(self, path: Path) -> LogDir:
        log_dir = LogDir.open(
            self._fs,
            str(path),
            self.clock,
            lambda topic: log_config(self.topic_config(topic)),
            handles=self.handles,
        )
        if log_dir.logs and not log_dir.was_clean:
            log.warning("%s was not stopped cleanly; its %d logs were recovered", path, len(log_dir.logs))
        return log_dir

    def _set_strays_aside(self) -> None:
        """Rename what belongs to no topic, such as what a kill during a deletion left."""
        for log_dir in self.log_dirs:
            for topic, index in [key for key in log_dir.logs if not self._is_assigned(*key)]:
                why = "is on other brokers now" if topic in self.image.topics else "belongs to no topic"
                try:
                    name = log_dir.set_aside(topic, index)
                    log.warning("%s-%d %s and was renamed to %s", topic, index, why, name)
                except StorageError as error:
                    log.error("%s-%d %s and could not be renamed: %s", topic, index, why, error)

    def _is_assigned(self, topic: str, index: int) -> bool:
        known = self.image.topics.get(topic)
        return known is not None and index < known.partition_count and self.broker_id in known.assignment[index]

    def topic_config(self, name: str) -> TopicConfig:
        """A topic's configuration: its own, else the broker's, else the default."""
        return TopicConfig.resolve(self.image.config(ConfigKind.TOPIC, name), self.config)

    def group_config(self, group_id: str) -> GroupConfig:
        """A group's configuration: its own, else the broker's, else the default."""
        return GroupConfig.resolve(self.image.config(ConfigKind.GROUP, group_id), self.config)

    @property
    def topic_defaults(self) -> Defaults:
        """What a topic gets when nobody says how many partitions and replicas it should have."""
        return Defaults(self.config.num_partitions, self.config.default_replication_factor)

    def _on_records(self, records: Sequence[Record]) -> None:
        if any(isinstance(record, ConfigRecord) and record.kind is ConfigKind.BROKER for record in records):
            self._apply_dynamic_config()
            self.fetchers.redistribute()
            # Topics inherit from the broker.
            records = [*records, *(ConfigRecord(ConfigKind.TOPIC, name, {}) for name in self.image.topics)]
        self.membership.on_records(records)
        self.controller_channel.on_records(records)
        self.replicas.on_records(records)
        if any(_is_about(record, self.broker_id) for record in records):
            self.replicas.assume_all_roles()
        self.fetchers.on_records(records)
        self.isr.on_records(records)
        self.groups.on_records(records)
        self.transactions.on_records(records)

    def _apply_dynamic_config(self) -> None:
        self.config = self.static_config.with_dynamic(
            self.image.config(ConfigKind.BROKER, str(self.static_config.node_id)),
            self.image.config(ConfigKind.BROKER, CLUSTER_DEFAULT),
        )


def _is_about(record: Record, broker_id: int) -> bool:
    """Whether a record may change what a broker may lead."""
    return isinstance(record, BrokerRecord | BrokerRemoved | BrokerAdmitted) and record.broker_id == broker_id
