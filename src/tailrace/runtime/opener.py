"""How a broker is opened: each step notes how it is undone, so a stop and a failed start run the same steps backwards.

Logs and metadata are opened first, which includes recovery after an unclean stop. Then the services are constructed,
each from finished ones. There is no `Broker` before all of them exist.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from uuid import uuid4

from tailrace.base import chance
from tailrace.base.clock import Clock, SystemClock
from tailrace.base.limits import FETCH_SESSION_EVICTION_MS, WORKER_THREADS_MAX
from tailrace.base.metric import Registry
from tailrace.base.undo import undone_by, undone_on_failure
from tailrace.config.broker import BrokerConfig
from tailrace.coordination.cluster import ClusterMetadata
from tailrace.coordination.store import MetadataStore
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import Endpoint
from tailrace.machines.fetch_session import FetchSessions
from tailrace.runtime.background import BackgroundTasks
from tailrace.runtime.broker import Broker
from tailrace.runtime.controller.channel import ControllerChannel, ask_by_connection
from tailrace.runtime.controller.forward import ControllerForward
from tailrace.runtime.controller.token_index import TokenIndex
from tailrace.runtime.decoy_secret import load_decoy_secret
from tailrace.runtime.descriptor import share_descriptors
from tailrace.runtime.group.coordinator import GroupCoordinators
from tailrace.runtime.lease import Lease
from tailrace.runtime.live_config import LiveConfig
from tailrace.runtime.log.care import LogCare
from tailrace.runtime.log.compaction import LogCompaction
from tailrace.runtime.log.folder import agreed_stop, close_folders, open_folders, set_strays_aside
from tailrace.runtime.log.metric import LogGauges
from tailrace.runtime.membership import Membership
from tailrace.runtime.metadata_store import load_cluster_id, open_store
from tailrace.runtime.peer_queue import peers_of
from tailrace.runtime.peer_route import PeerRoute
from tailrace.runtime.producer_id import ProducerIds
from tailrace.runtime.registration import Registration
from tailrace.runtime.replication.fetcher_pool import FetcherPool
from tailrace.runtime.replication.isr import IsrKeeper
from tailrace.runtime.replication.leadership import ReplicaWorld
from tailrace.runtime.replication.replicas import Replicas
from tailrace.runtime.replication.resignation import LeaderResignation
from tailrace.runtime.replication.throttle import ReplicationThrottle
from tailrace.runtime.schema.validation import SchemaValidation
from tailrace.runtime.transaction.coordinator import TransactionCoordinators
from tailrace.runtime.transaction.marker import MarkerSender
from tailrace.runtime.transaction.marker_write import MarkerWriter
from tailrace.runtime.transaction.metric import ProducerGauges
from tailrace.runtime.transaction.verification import TransactionVerification
from tailrace.storage.folder_identity import find_new_folders, read_identity, write_identity
from tailrace.storage.fs import FileSystem, RealFileSystem
from tailrace.storage.handle_pool import HandlePool
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir


async def start_broker(
    config: BrokerConfig,
    *,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    store: MetadataStore | None = None,
    endpoints: Sequence[Endpoint] | None = None,
) -> Broker:
    """Open a broker without listeners and have it join its cluster; by default it advertises what `config` says."""
    broker = await open_broker(config, fs=fs, clock=clock, store=store)
    async with undone_by(broker.stop):
        if endpoints is not None:
            broker.advertise(endpoints)
        await broker.join()
    return broker


async def open_broker(
    config: BrokerConfig,
    *,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    store: MetadataStore | None = None,
) -> Broker:
    """Open the metadata and the logs of a broker and construct its services; it does not lead before it joins.

    The broker owns `store` from here on, even if this fails.
    """
    async with undone_on_failure() as undo:
        ground = await _open_ground(config, fs or RealFileSystem(), clock or SystemClock(), store, undo)
        return await _open_services(ground, undo)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ground:
    """What every service stands on: the metadata, the logs, the configuration and the worker threads."""

    live_config: LiveConfig
    clock: Clock
    metadata: ClusterMetadata
    cluster_id: str
    decoy_secret: bytes
    connection_count_max: int
    log_dirs: tuple[LogDir, ...]
    registration: Registration
    route: PeerRoute
    worker: Executor
    folder_worker: Executor

    @property
    def broker_id(self) -> int:
        return self.live_config.current().node_id

    @property
    def image(self) -> ClusterImage:
        return self.metadata.image


# --- metadata and logs


async def _open_ground(
    config: BrokerConfig, fs: FileSystem, clock: Clock, given_store: MetadataStore | None, undo: AsyncExitStack
) -> _Ground:
    store = given_store or await open_store(config, fs, clock)
    undo.push_async_callback(store.close)
    metadata = ClusterMetadata(store)
    await metadata.load()
    live_config = LiveConfig(config, metadata.image)
    descriptors = share_descriptors()
    handles = HandlePool(descriptors.segment_count_max)
    # All folders are checked before any of them is changed.
    folders = [str(path) for path in config.log_directories]
    claims = (read_identity(fs, folder) for folder in folders)
    cluster_id = await load_cluster_id(store, next(filter(None, claims), None))
    has_login = any(endpoint.security_protocol.startswith("SASL") for endpoint in config.broker_listeners)
    decoy_secret = await load_decoy_secret(store) if has_login else b""
    new_folders = find_new_folders(fs, folders, cluster_id, config.node_id)
    log_dirs = await open_folders(
        fs, config.log_directories, clock, lambda topic: LogConfig.of_topic(live_config.topic(topic)), handles
    )
    registration = Registration(
        metadata,
        config.node_id,
        rack=config.broker_rack,
        endpoints=_configured_endpoints(config),
        found_stop=agreed_stop(log_dirs),
    )
    undo.callback(lambda: close_folders(log_dirs, registration.clean_stop))
    for folder in new_folders:
        write_identity(fs, folder, cluster_id, config.node_id, uuid4())
    # The threads end before the folders are closed, and so does their work on them.
    worker = _open_pool(WORKER_THREADS_MAX, "tailrace-worker", undo)
    folder_worker = _open_pool(1, "tailrace-folder", undo)
    handles.defer = worker.submit
    undo.callback(setattr, handles, "defer", None)
    return _Ground(
        live_config=live_config,
        clock=clock,
        metadata=metadata,
        cluster_id=cluster_id,
        decoy_secret=decoy_secret,
        connection_count_max=descriptors.connection_count_max,
        log_dirs=log_dirs,
        registration=registration,
        route=PeerRoute(live_config.current),
        worker=worker,
        folder_worker=folder_worker,
    )


def _open_pool(thread_count_max: int, name: str, undo: AsyncExitStack) -> Executor:
    pool = ThreadPoolExecutor(thread_count_max, thread_name_prefix=name)
    undo.callback(pool.shutdown)
    return pool


def _configured_endpoints(config: BrokerConfig) -> tuple[Endpoint, ...]:
    """Return where the broker will be found, as far as the configuration says before any listener is open."""
    opened = config.broker_listeners
    told = [config.advertised_listener(each.name, each.port, default_host="") for each in opened]
    return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in told)


# --- services


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Replication:
    """The partitions of a broker and what replicates them."""

    replicas: Replicas
    fetchers: FetcherPool
    isr: IsrKeeper
    resignation: LeaderResignation
    leader_throttle: ReplicationThrottle


async def _open_services(ground: _Ground, undo: AsyncExitStack) -> Broker:
    replication = _make_replication(ground)
    replicas = replication.replicas
    async with undone_by(replication.fetchers.stop):
        for name in list(ground.image.topics):
            await replicas.reconcile(name)
        set_strays_aside(ground.log_dirs, ground.image, ground.broker_id)
    # From here on nothing waits, so the image cannot change before the broker listens to it. Until here it could:
    # recovery may take minutes. `review` below looks at the topics again, under these configs.
    ground.live_config.refresh()
    broker = _make_broker(ground, replication, undo)
    undo.push_async_callback(broker.care.finish)
    undo.push_async_callback(broker.schema_validation.stop)
    for service in (broker.groups, broker.transactions, broker.verification, broker.isr, broker.fetchers):
        undo.push_async_callback(service.stop)
    undo.push_async_callback(broker.background.stop)
    undo.push_async_callback(broker.leave)
    ground.metadata.listen(broker.on_records)
    replicas.review()
    _start_background(broker)
    return broker


def _start_background(broker: Broker) -> None:
    broker.resignation.watch()
    for run in (broker.replicas.run, broker.isr.run, broker.resignation.run):
        broker.background.start(run)
    broker.background.spawn(broker.compaction.run())
    for task in broker.care.tasks():
        broker.background.spawn(task)


def _make_replication(ground: _Ground) -> _Replication:
    config = ground.live_config.current
    throttle = partial(ReplicationThrottle, ground.broker_id, ground.clock)
    follower_throttle = throttle(
        lambda: config().follower_replication_throttled_rate,
        lambda topic: topic.follower_replication_throttled_replicas,
    )
    fetchers = FetcherPool(
        ground.broker_id, ground.image, config, ground.clock, ground.worker, follower_throttle, ground.route
    )
    lag_max_ms = config().replica_lag_time_max_ms
    isr = IsrKeeper(ground.metadata, lag_max_ms)
    replicas = Replicas(
        ground.image,
        ground.log_dirs,
        ground.live_config.topic,
        ground.folder_worker,
        ground.worker,
        ReplicaWorld(ground.broker_id, ground.clock, lag_max_ms, isr),
        fetchers,
        may_lead=lambda: ground.registration.is_admitted,
        lease=_lease(ground),
    )
    leader_throttle = throttle(
        lambda: config().leader_replication_throttled_rate,
        lambda topic: topic.leader_replication_throttled_replicas,
    )
    return _Replication(
        replicas=replicas,
        fetchers=fetchers,
        isr=isr,
        resignation=LeaderResignation(ground.metadata, replicas, ground.log_dirs, lag_max_ms // 2),
        leader_throttle=leader_throttle,
    )


def _lease(ground: _Ground) -> Lease | None:
    """Return the lease of a leader; None if the session with the store cannot end, because the store is embedded."""
    until_ms = ground.metadata.store.lease_until_ms
    return None if until_ms() == inf else Lease(ground.clock, until_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Coordination:
    """The coordinators of groups and transactions, and what they need."""

    producer_ids: ProducerIds
    groups: GroupCoordinators
    transactions: TransactionCoordinators
    marker_writer: MarkerWriter
    verification: TransactionVerification


def _make_coordination(
    ground: _Ground, replicas: Replicas, controller_channel: ControllerChannel, metrics: Registry
) -> _Coordination:
    config = ground.live_config.current
    producer_ids = ProducerIds(ground.metadata.store, ground.broker_id)
    shared = config, ground.clock, ground.image, replicas, ground.worker, controller_channel.create_topic
    groups = GroupCoordinators(*shared, metrics)
    marker_writer = MarkerWriter(ground.clock, replicas, groups)
    peer_of = peers_of(ground.image, ground.route, f"broker-{ground.broker_id}-transactions")
    marker_sender = MarkerSender(ground.broker_id, ground.image, marker_writer, peer_of)
    transactions = TransactionCoordinators(*shared, producer_ids.take, marker_sender, metrics)
    verification = TransactionVerification(ground.broker_id, config, ground.clock, ground.image, transactions, peer_of)
    return _Coordination(
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        marker_writer=marker_writer,
        verification=verification,
    )


def _make_broker(ground: _Ground, replication: _Replication, undo: AsyncExitStack) -> Broker:
    config, replicas, metrics = ground.live_config.current, replication.replicas, Registry()
    membership = Membership(ground.metadata, ground.registration, ground.live_config, replicas.settled)
    controller_channel = ControllerChannel(
        ground.image,
        lambda: membership.election.is_controller,
        lambda new: membership.controller.create_topic(new, ground.live_config.topic_defaults),
        ask_by_connection(ground.image, ground.route, ground.broker_id),
    )
    coordination = _make_coordination(ground, replicas, controller_channel, metrics)
    care = LogCare(config(), ground.clock, replicas, ground.log_dirs, ground.worker, ground.folder_worker)
    compaction = LogCompaction(config, ground.clock, care.compacted, ground.log_dirs, ground.folder_worker)
    LogGauges(metrics, replicas.all, ground.log_dirs, compaction)
    ProducerGauges(metrics, replicas.all, ground.clock, config)
    return Broker(
        broker_id=ground.broker_id,
        cluster_id=ground.cluster_id,
        decoy_secret=ground.decoy_secret,
        live_config=ground.live_config,
        clock=ground.clock,
        metrics=metrics,
        metadata=ground.metadata,
        connection_count_max=ground.connection_count_max,
        log_dirs=ground.log_dirs,
        worker=ground.worker,
        folder_worker=ground.folder_worker,
        care=care,
        compaction=compaction,
        membership=membership,
        controller=membership.controller,
        controller_forward=ControllerForward(ground.image, ground.route, ground.broker_id),
        controller_channel=controller_channel,
        token_index=TokenIndex(ground.metadata, config().delegation_token_secret_key),
        replicas=replicas,
        fetchers=replication.fetchers,
        fetch_sessions=_make_fetch_sessions(config()),
        isr=replication.isr,
        resignation=replication.resignation,
        leader_throttle=replication.leader_throttle,
        producer_ids=coordination.producer_ids,
        groups=coordination.groups,
        transactions=coordination.transactions,
        marker_writer=coordination.marker_writer,
        verification=coordination.verification,
        schema_validation=SchemaValidation(config(), ground.clock, metrics),
        background=BackgroundTasks(),
        undo=undo,
    )


def _make_fetch_sessions(config: BrokerConfig) -> FetchSessions:
    return FetchSessions(
        config.max_incremental_fetch_session_cache_slots,
        FETCH_SESSION_EVICTION_MS,
        lambda: chance.generator().randrange(1, 2**31),
    )
