"""The groups of this broker: a shard for each partition of `__consumer_offsets` that it leads."""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TypeVar, cast
from uuid import UUID, uuid4

from runnel.base.clock import Clock
from runnel.base.invariant import invariant
from runnel.base.metric import Registry
from runnel.config.broker import BrokerConfig
from runnel.config.unit import MINUTE_MS
from runnel.machines import log_record
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import Record, TopicRecord, TopicRemoved
from runnel.machines.controller.topic import NewTopic
from runnel.machines.decision import Token
from runnel.machines.group.classic_setting import ClassicGroupSetting
from runnel.machines.group.coordinator import GroupCoordinator
from runnel.machines.group.decision import Decision
from runnel.machines.group.offset_coordinator import OffsetSetting
from runnel.machines.group.record.format import GROUP_RECORDS
from runnel.machines.log_replay import TransactionEnd
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.compression import Compression
from runnel.runtime.coordinator_log import CoordinatorLog
from runnel.runtime.coordinator_shards import CoordinatorShards
from runnel.runtime.coordinator_topic import OFFSETS_TOPIC, offsets_topic
from runnel.runtime.group_metric import GroupCounters, GroupGauges
from runnel.runtime.group_setting import ConsumerGroupSettings
from runnel.runtime.group_shard import GroupShard
from runnel.runtime.partition import Partition
from runnel.runtime.replicas import Replicas

Decide = Callable[[GroupCoordinator, int, Token], Decision]
T = TypeVar("T")


class GroupCoordinators(CoordinatorShards[GroupCoordinator, log_record.Record]):
    """Finds the shard of a group."""

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
        self._consumer_setting = ConsumerGroupSettings(config, image)
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
        """Have `append` write a marker to a partition, and its offsets count or go in the same step.

        NOT_LEADER_OR_FOLLOWER, by which a transaction's coordinator knows to try again, while groups are not loaded.
        """
        try:
            shard = self.shard_at(index)
            shard.check_loaded()
        except ApiError as error:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        invariant(isinstance(shard, GroupShard), "groups are in shards of groups")
        return cast("GroupShard", shard).end_transaction(end, append)

    def on_records(self, records: Sequence[Record]) -> None:
        """Topics came or went."""
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
                shard.carry_out(shard.machine.on_topics_deleted(deleted))


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
