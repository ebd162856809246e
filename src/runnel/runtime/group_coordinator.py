"""The groups of this broker: a shard for each partition of `__consumer_offsets` that it leads.

Shards are made and loaded when the broker begins to lead a partition, and unloaded when it stops. The topic is made
when somebody first asks for the coordinator of a group. One set of deadlines serves them all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from uuid import UUID, uuid4

from runnel.base.clock import Clock
from runnel.base.metric import Registry
from runnel.config.broker import BrokerConfig
from runnel.config.unit import MINUTE_MS
from runnel.machines.controller.image import ClusterImage
from runnel.machines.controller.record import Record, TopicRecord, TopicRemoved
from runnel.machines.controller.topic import NewTopic
from runnel.machines.group.classic_setting import ClassicGroupSetting
from runnel.machines.group.coordinator import GroupCoordinator
from runnel.machines.group.decision import Timer
from runnel.machines.group.offset_coordinator import OffsetSetting
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.message import Message
from runnel.records.compression import Compression
from runnel.runtime.deadline import Deadlines
from runnel.runtime.group_log import GroupLog
from runnel.runtime.group_metric import GroupCounters, GroupGauges
from runnel.runtime.group_setting import ConsumerGroupSettings
from runnel.runtime.group_shard import Answer, Decide, GroupShard
from runnel.runtime.group_topic import OFFSETS_TOPIC, offsets_topic, partition_for
from runnel.runtime.partition import NO_EPOCH, Partition
from runnel.runtime.replicas import Replicas

log = logging.getLogger("runnel.runtime")


class GroupCoordinators:
    """Finds the shard of a group, and keeps time for all of them."""

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
        self._config = config
        self._clock = clock
        self._image = image
        self._replicas = replicas
        self._worker = worker
        self._consumer_setting = ConsumerGroupSettings(config, image)
        self._create_topic = create_topic
        self._shards: dict[int, GroupShard] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._making = asyncio.Lock()
        self._deadlines: Deadlines[tuple[GroupShard, tuple[str, ...]]] = Deadlines()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
        self._counters = GroupCounters(metrics)
        GroupGauges(metrics, self._loaded_machines, replicas)
        self._topic_ids: dict[str, UUID] = {name: topic.topic_id for name, topic in image.topics.items()}

    # Life.

    def start(self) -> None:
        """Begin to load what this broker leads; until a shard is loaded it says so."""
        self._replicas.on_role = self.on_role
        for index in range(self._partition_count):
            try:
                self.on_role(self._replicas.get(OFFSETS_TOPIC, index))
            except ApiError as error:
                if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    log.error("%s-%d cannot be loaded: %s", OFFSETS_TOPIC, index, error)

    def on_role(self, partition: Partition) -> None:
        """A partition began to be led here, or ended."""
        if partition.topic != OFFSETS_TOPIC:
            return
        shard = self._shards.get(partition.index)
        if shard is not None and shard.is_gone:
            shard.unload()
            del self._shards[partition.index]
        if partition.is_leader:
            self._shard(partition.index)

    async def stop(self) -> None:
        """Stop the clock and send everybody away who waits."""
        if self._alarm is not None:
            self._alarm.cancel()
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        self._unload_all()

    async def loaded(self) -> None:
        """Wait until everything that has begun to load is loaded."""
        while self._loading:
            await asyncio.wait(self._loading)

    async def make_topic(self) -> None:
        """Make sure that there is a place for groups."""
        if OFFSETS_TOPIC in self._image.topics:
            return
        async with self._making:
            if OFFSETS_TOPIC not in self._image.topics:
                await self._create_topic(offsets_topic(self._config(), max(1, len(self._image.active_racks()))))
                await self.loaded()

    # Requests.

    async def ask(self, group_id: str, decide: Decide, answered: Callable[[Answer], None] | None = None) -> Message:
        """Have the coordinator of a group decide, and wait for its reply; `answered` sees the reply to come."""
        answer = self.shard(group_id).ask(decide)
        if answered is not None and not answer.done():
            answered(answer)
        return await answer

    def machine(self, group_id: str) -> GroupCoordinator:
        """The coordinator of a group, to look at; ApiError if it is not here or not loaded."""
        shard = self.shard(group_id)
        shard.check_loaded()
        return shard.machine

    async def committed(self, group_id: str) -> None:
        """Return when what the coordinator of a group knows by now is committed, so that others may be told."""
        await self.shard(group_id).committed()

    def machines(self) -> list[GroupCoordinator]:
        """All coordinators of this broker, to look at; ApiError if one is not loaded."""
        for shard in self._shards.values():
            shard.check_loaded()
        return [shard.machine for shard in self._shards.values()]

    def _loaded_machines(self) -> list[GroupCoordinator]:
        return [shard.machine for shard in self._shards.values() if shard.is_loaded and not shard.is_gone]

    def shard(self, group_id: str) -> GroupShard:
        """The shard of a group; NOT_COORDINATOR before there is any."""
        count = self._partition_count
        if count == 0:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self._shard(partition_for(group_id, count))

    @property
    def _partition_count(self) -> int:
        topic = self._image.topics.get(OFFSETS_TOPIC)
        return 0 if topic is None else topic.partition_count

    def _shard(self, index: int) -> GroupShard:
        shard = self._shards.get(index)
        if shard is not None and not shard.is_gone:
            return shard
        try:
            partition = self._replicas.get(OFFSETS_TOPIC, index)
            partition.check_leader(NO_EPOCH)
        except ApiError as error:
            raise ApiError(ErrorCode.NOT_COORDINATOR, error.message) from error
        config = self._config()
        compression = Compression(config.offsets_topic_compression_codec)
        group_log = GroupLog(partition, compression, config.offsets_load_buffer_size, self._worker)
        machine = GroupCoordinator(
            _classic_setting(config),
            _offset_setting(config),
            lambda: str(uuid4()),
            self._image,
            self._consumer_setting,
        )
        if shard is not None:
            shard.unload()
        shard = self._shards[index] = GroupShard(
            machine, group_log, self._clock, self._set_timer, self._counters, config.offsets_commit_timeout_ms
        )
        task = asyncio.get_running_loop().create_task(self._load(shard, partition.name))
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        return shard

    async def _load(self, shard: GroupShard, name: str) -> None:
        try:
            await shard.load()
        except Exception:
            if shard.is_gone:
                return  # its log belongs to another coordinator by now
            # Whatever it is: with half of its log a coordinator would send members back to old offsets.
            shard.is_broken = True
            log.exception("%s cannot be loaded, its groups stay unavailable", name)

    # The world.

    def on_records(self, records: Sequence[Record]) -> None:
        """Topics came or went."""
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
        if any(name == OFFSETS_TOPIC for name, _ in deleted):
            self._unload_all()
        for shard in self._shards.values() if changed else ():
            shard.machine.on_topics(self._clock.now_ms(), created=created)
            if deleted and shard.is_loaded:
                shard.carry_out(shard.machine.on_topics_deleted(deleted))

    def _unload_all(self) -> None:
        for shard in self._shards.values():
            shard.unload()
        self._shards = {}

    # Time.

    def _set_timer(self, shard: GroupShard, timer: Timer) -> None:
        key = shard, timer.key
        if timer.at_ms is None:
            self._deadlines.cancel(key)
            return
        # The wall clock may jump; what members wait for must not.
        wait_ms = timer.at_ms - self._clock.now_ms()
        self._deadlines.set(key, self._clock.monotonic_ms() + wait_ms)
        self._set_alarm()

    def _set_alarm(self) -> None:
        next_ms = self._deadlines.next_ms()
        if next_ms is None or (self._alarm_ms is not None and self._alarm_ms <= next_ms):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = next_ms
        wait_ms = max(next_ms - self._clock.monotonic_ms(), 0)
        self._alarm = asyncio.get_running_loop().call_later(wait_ms / 1000 + 0.001, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_ms = None
        try:
            self.fire_due()
        finally:
            self._set_alarm()

    def fire_due(self) -> None:
        """Do what is due by now."""
        for shard, key in self._deadlines.take_due(self._clock.monotonic_ms()):
            if shard.is_loaded and not shard.is_gone:
                try:
                    shard.on_timer(key)
                except Exception:
                    # A bug costs this one timer, as it costs one request in a handler.
                    log.exception("the timer %s failed", key)


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
