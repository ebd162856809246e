"""The groups that this broker coordinates: one shard for each partition of `__consumer_offsets` that it leads."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar, cast
from uuid import UUID, uuid4

from tailrace.base.clock import Clock
from tailrace.base.invariant import InvariantError, invariant
from tailrace.base.limits import GROUP_SETTINGS_REMEMBERED_MAX
from tailrace.base.metric import Registry
from tailrace.config.broker import BrokerConfig
from tailrace.config.group import GroupConfig
from tailrace.config.unit import MINUTE_MS
from tailrace.machines import log_record
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import ConfigKind, Record, TopicRecord, TopicRemoved
from tailrace.machines.controller.topic import NewTopic
from tailrace.machines.decision import Token
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting, consumer_group_setting
from tailrace.machines.group.coordinator import GroupCoordinator
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.offset.coordinator import OffsetSetting
from tailrace.machines.group.record.format import GROUP_RECORDS
from tailrace.machines.log_replay import LogEntry, TransactionEnd
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.compression import Compression
from tailrace.runtime.coordinator.log import CoordinatorLog
from tailrace.runtime.coordinator.shard import CoordinatorShard
from tailrace.runtime.coordinator.shards import CoordinatorShards
from tailrace.runtime.coordinator.topic import OFFSETS_TOPIC, offsets_topic
from tailrace.runtime.group.metric import GroupCounters, GroupGauges
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas

Decide = Callable[[GroupCoordinator, int, Token], Decision]
T = TypeVar("T")


class GroupShard(CoordinatorShard[GroupCoordinator, log_record.Record]):
    """The groups of one partition of `__consumer_offsets`, whose log also holds offsets of transactions."""

    def end_transaction(self, end: TransactionEnd, append: Callable[[], T]) -> T:
        """Write a marker with `append` and replay it in the same step.

        Call this only on a loaded shard. A shard that is still loading might or might not read the marker from its log,
        and could not tell which.
        """
        appended = append()
        try:
            self.replay_written([end])
        except InvariantError as error:
            self.go_offline(error)
        return appended

    def _replay(self, entry: LogEntry[log_record.Record] | TransactionEnd) -> None:
        match entry:
            case LogEntry(record, offset, producer_id):
                self.machine.replay(record, offset, producer_id)
            case TransactionEnd(producer_id, is_commit):
                self.machine.replay_transaction_end(producer_id, is_commit=is_commit)


class GroupCoordinators(CoordinatorShards[GroupCoordinator, log_record.Record]):
    """Finds the shard that coordinates a group."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        image: ClusterImage,
        replicas: Replicas,
        worker: Executor,
        create_topic: Callable[[NewTopic], Awaitable[object]],
        metrics: Registry,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, clock, image, replicas, create_topic)
        self._config = config
        self._worker = worker
        self._consumer_setting = _ConsumerGroupSettings(config, image)
        self._counters = GroupCounters(metrics)
        GroupGauges(metrics, self.loaded_machines, replicas)
        self._topic_ids: dict[str, UUID] = {name: topic.topic_id for name, topic in image.topics.items()}

    def _new_topic(self, broker_count: int) -> NewTopic:
        return offsets_topic(self._config(), broker_count)

    def _new_shard(self, partition: Partition) -> GroupShard:
        config = self._config()
        compression = Compression(config.offsets_topic_compression_codec)
        machine = GroupCoordinator(
            _classic_setting(config),
            _offset_setting(config),
            lambda: str(uuid4()),
            self._image,
            self._consumer_setting,
        )
        return GroupShard(
            machine,
            CoordinatorLog(partition, GROUP_RECORDS, compression, config.offsets_load_buffer_size, self._worker),
            self._clock,
            self._timers.set,
            self._counters,
            config.offsets_commit_timeout_ms,
        )

    def end_transaction(self, index: int, end: TransactionEnd, append: Callable[[], T]) -> T:
        """Write a marker to a partition with `append`, and commit or drop the transaction's offsets in the same step.

        Raise NOT_LEADER_OR_FOLLOWER while the groups are not loaded; the transaction's coordinator retries then.
        """
        try:
            shard = self.shard_at(index)
            shard.check_loaded()
        except ApiError as error:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        invariant(isinstance(shard, GroupShard), f"the shard of {OFFSETS_TOPIC}-{index} does not coordinate groups")
        return cast("GroupShard", shard).end_transaction(end, append)

    def on_records(self, records: Sequence[Record]) -> None:
        """Have groups rebalance, and drop their offsets, for topics that were created or deleted."""
        super().on_records(records)
        changed: set[str] = set()
        created = False
        deleted = []
        for record in records:
            if isinstance(record, TopicRecord):
                created |= record.name not in self._topic_ids
                self._topic_ids[record.name] = record.topic_id
                changed.add(record.name)
            elif isinstance(record, TopicRemoved) and record.name in self._topic_ids:
                deleted.append((record.name, self._topic_ids.pop(record.name)))
                changed.add(record.name)
        for shard in self._shards.values() if changed else ():
            shard.machine.on_topics(self._clock.now_ms(), created=created)
            if deleted and shard.is_loaded:
                shard.run(partial(shard.machine.on_topics_deleted, deleted))


def _classic_setting(config: BrokerConfig) -> ClassicGroupSetting:
    return ClassicGroupSetting(
        session_timeout_min_ms=config.group_min_session_timeout_ms,
        session_timeout_max_ms=config.group_max_session_timeout_ms,
        size_max=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
    )


def _offset_setting(config: BrokerConfig) -> OffsetSetting:
    return OffsetSetting(
        metadata_length_max=config.offset_metadata_max_bytes,
        retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        check_interval_ms=config.offsets_retention_check_interval_ms,
    )


class _ConsumerGroupSettings:
    """The settings of groups of the consumer protocol, by group id.

    Every heartbeat asks for them, so they are resolved once and kept until a config changes. Groups with the same
    configs share one entry; most have none.
    """

    def __init__(self, config: Callable[[], BrokerConfig], image: ClusterImage) -> None:
        self._config = config
        self._image = image
        self._known: dict[tuple[tuple[str, str], ...], ConsumerGroupSetting] = {}
        self._known_for = config()

    def __call__(self, group_id: str) -> ConsumerGroupSetting:
        config = self._config()
        if config is not self._known_for or len(self._known) > GROUP_SETTINGS_REMEMBERED_MAX:
            self._known, self._known_for = {}, config
        own = self._image.config(ConfigKind.GROUP, group_id)
        key = tuple(own.items())
        if key not in self._known:
            self._known[key] = self._resolve(own, config)
        return self._known[key]

    @staticmethod
    def _resolve(own: Mapping[str, str], config: BrokerConfig) -> ConsumerGroupSetting:
        return consumer_group_setting(GroupConfig.resolve(own, config), config)
