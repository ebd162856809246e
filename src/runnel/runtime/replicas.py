"""The partitions that live on this broker, kept true to the cluster image.

The image says what should be here; `reconcile` makes it so for one topic, at start-up and
after every change alike. Folders are made and removed in a worker thread; partitions appear
and disappear on the event loop. Whoever changed the image waits with `settled`. Who leads is not waited for: a
partition that is here hears of it at once, so that nobody leads for longer than the image says so.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Protocol

from runnel.base.limits import SYNCING_LOGS_MAX
from runnel.config.topic import TopicConfig
from runnel.machines.controller.image import ClusterImage, Topic
from runnel.machines.controller.record import (
    NO_BROKER,
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.runtime.leadership import ReplicaWorld
from runnel.runtime.lease import Lease
from runnel.runtime.partition import Partition
from runnel.storage.error import StorageError
from runnel.storage.log import Log
from runnel.storage.log_config import LogConfig
from runnel.storage.log_dir import LogDir

log = logging.getLogger("runnel.runtime")


class Following(Protocol):
    """Who fetches for the partitions that other brokers lead."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader of now."""
        ...

    def leave(self, partition: Partition) -> None:
        """Fetch for it no more."""
        ...


class Replicas:
    """Partitions by topic and index."""

    def __init__(
        self,
        image: ClusterImage,
        log_dirs: Sequence[LogDir],
        resolve_config: Callable[[str], TopicConfig],
        worker: Executor,
        flush_worker: Executor | None,
        world: ReplicaWorld,
        following: Following,
        *,
        may_lead: Callable[[], bool],
        lease: Lease | None = None,
    ) -> None:
        """`may_lead` says whether this broker's registration is admitted, before which it leads nothing."""
        self._flush_worker = flush_worker
        self._broker_id = world.broker_id
        self._image = image
        self._log_dirs = log_dirs
        self._resolve_config = resolve_config
        self._worker = worker
        self._world = world
        self._following = following
        self._may_lead = may_lead
        self._lease = lease
        self._high_watermarks: Mapping[tuple[str, int], int] | None = None
        self._role_listeners: list[Callable[[Partition], None]] = []
        self._topics: dict[str, dict[int, Partition]] = {}
        # Whose high watermarks have to be written down again, if they are replicated.
        self.moved: set[Partition] = set()
        self._changes: asyncio.Queue[Sequence[Record]] = asyncio.Queue()
        self._told: set[tuple[str, int]] = set()  # logs that could not be opened, of which the log file knows

    def listen_roles(self, listener: Callable[[Partition], None]) -> None:
        """Have `listener` called when a partition begins to lead, begins another epoch of leading, or stops."""
        self._role_listeners.append(listener)

    def _tell_role(self, partition: Partition) -> None:
        for listener in self._role_listeners:
            listener(partition)

    def get(self, topic: str, index: int) -> Partition:
        """The partition, or Kafka's error for one that is not here."""
        try:
            return self._topics[topic][index]
        except KeyError:
            raise self._absence(topic, index) from None

    def all(self) -> list[Partition]:
        return [partition for partitions in self._topics.values() for partition in partitions.values()]

    def compacted(self) -> list[Partition]:
        """The partitions of topics that are compacted, which are few."""
        return [
            partition
            for partitions in self._topics.values()
            if any(first.log.config.cleanup_policy_compact for first in islice(partitions.values(), 1))
            for partition in partitions.values()
        ]

    def offline(self, topic: Topic, index: int) -> list[int]:
        """Which replicas of a partition cannot serve: this broker, if it could not open the log or the disk failed."""
        partition = self._topics.get(topic.name, {}).get(index)
        is_served = partition is not None and not partition.is_offline
        return [self._broker_id] if self._broker_id in topic.assignment[index] and not is_served else []

    def on_records(self, records: Sequence[Record]) -> None:
        """Take note of changes of the image: leaders change now, and what takes time is carried out soon."""
        left = [record for record in records if not self._is_carried_out(record)]
        for name in topics_of(left):
            self.assume_roles(name)
        if left:
            self._changes.put_nowait(left)

    def _is_carried_out(self, record: Record) -> bool:
        """Whether a change is only one of who leads, and has been made; elections change thousands of partitions."""
        if not isinstance(record, PartitionRecord):
            return False
        topic = self._image.topics.get(record.topic)
        if topic is None or record.partition >= topic.partition_count:
            return False
        replicas = topic.assignment[record.partition]
        partition = self._topics.get(record.topic, {}).get(record.partition)
        if partition is None:
            return self._broker_id not in replicas
        if partition.topic_id != topic.topic_id or self._broker_id not in replicas:
            return False
        self._assume_role(partition, record, replicas)
        return True

    def review(self) -> None:
        """Look at everything again soon: the image may have changed before anybody told of its changes."""
        self.on_records([ConfigRecord(ConfigKind.TOPIC, name, {}) for name in {*self._image.topics, *self._topics}])

    def retry_missing(self) -> None:
        """Try again soon to open the logs that could not be opened; a full disk may have room again."""
        for topic in self._image.topics.values():
            here = self._topics.get(topic.name, {})
            if any(
                self._broker_id in replicas and index not in here for index, replicas in enumerate(topic.assignment)
            ):
                self.on_records([ConfigRecord(ConfigKind.TOPIC, topic.name, {})])

    async def settled(self) -> None:
        """Return when every change so far has been carried out."""
        await self._changes.join()

    async def run(self) -> None:
        """Carry out changes for ever."""
        while True:
            records = await self._changes.get()
            try:
                for name in topics_of(records):
                    await self._reconcile_if_possible(name)
            finally:
                self._changes.task_done()

    async def _reconcile_if_possible(self, name: str) -> None:
        try:
            await self.reconcile(name)
        except Exception:
            # A bug in one topic's change must not keep all later changes from happening.
            log.exception("the change of topic %s could not be carried out", name)

    async def reconcile(self, name: str) -> None:
        """Make the partitions of one topic what the image says they are."""
        topic = self._image.topics.get(name)
        here = self._topics.get(name, {})
        if here and (topic is None or next(iter(here.values())).topic_id != topic.topic_id):
            await self._remove(name)
        if topic is not None:
            config = self._resolve_config(name)
            await self._remove_unassigned(topic)
            await self._add_missing(topic, config)
            self._update(topic, config)

    async def _remove(self, name: str) -> None:
        removed = self._topics.pop(name)
        for partition in removed.values():
            self._retire(partition)
        await self._in_worker(self._delete_logs, name, list(removed))

    async def _remove_unassigned(self, topic: Topic) -> None:
        """Let go of partitions that were moved to other brokers."""
        here = self._topics.get(topic.name, {})
        gone = [index for index in here if self._broker_id not in topic.assignment[index]]
        for index in gone:
            self._retire(here.pop(index))
        if gone:
            await self._in_worker(self._delete_logs, topic.name, gone)

    def _retire(self, partition: Partition) -> None:
        self._following.leave(partition)
        self.moved.add(partition)
        partition.retire()
        self._tell_role(partition)

    async def _add_missing(self, topic: Topic, config: TopicConfig) -> None:
        here = self._topics.setdefault(topic.name, {})
        missing = [
            index
            for index, replicas in enumerate(topic.assignment)
            if index not in here and self._broker_id in replicas
        ]
        logs = await self._in_worker(self._open_logs, topic, missing, log_config(config)) if missing else None
        for index, storage in (logs or {}).items():
            high_watermark = self._known_high_watermark(topic, index)
            here[index] = Partition(
                *(topic.name, topic.topic_id, index, storage, config, self._flush_worker),
                high_watermark=high_watermark,
                lease=self._lease,
                moved=self.moved,
            )

    def _known_high_watermark(self, topic: Topic, index: int) -> int | None:
        """What was committed when it was last written down; None where there is nobody else who could know better."""
        if len(topic.assignment[index]) == 1:
            return None
        if self._high_watermarks is None:
            known: dict[tuple[str, int], int] = {}
            for log_dir in self._log_dirs:
                known |= log_dir.read_high_watermarks()
            self._high_watermarks = known
        return self._high_watermarks.get((topic.name, index), 0)

    def _update(self, topic: Topic, config: TopicConfig) -> None:
        settings = log_config(config)
        for partition in self._topics[topic.name].values():
            partition.config = config
            partition.log.reconfigure(settings)
        self.assume_roles(topic.name)

    # --- roles

    def assume_all_roles(self) -> None:
        """Look again who leads what, because this broker was admitted or is gone."""
        for name in list(self._topics):
            self.assume_roles(name)

    def assume_roles(self, name: str) -> None:
        """Lead and follow what the image says, of the partitions of a topic that are here."""
        topic = self._image.topics.get(name)
        if topic is None:
            return
        for index, partition in self._topics.get(name, {}).items():
            record = topic.leadership.get(index)
            if record is not None and partition.topic_id == topic.topic_id:
                self._assume_role(partition, record, topic.assignment[index])

    def _assume_role(self, partition: Partition, record: PartitionRecord, replicas: Sequence[int]) -> None:
        before = partition.is_leader, partition.leader_epoch
        if record.leader == self._broker_id and self._may_lead():
            self._following.leave(partition)
            partition.lead(record, replicas, self._world)
        else:
            partition.follow(record)
            is_led = record.leader not in (NO_BROKER, self._broker_id)
            # Whose disk has failed cannot follow either, and is out of the ISR before long.
            if not is_led or self._broker_id not in replicas or partition.is_offline:
                self._following.leave(partition)
            else:
                self._following.follow(partition)
        if before != (partition.is_leader, partition.leader_epoch):
            self._tell_role(partition)

    def _absence(self, topic: str, index: int) -> ApiError:
        known = self._image.topics.get(topic)
        if known is not None and 0 <= index < known.partition_count:
            if self._broker_id not in known.assignment[index]:
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is on other brokers")
            if (topic, index) not in self._told:
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {topic}-{index} is not open yet")
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{index} could not be opened")
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    # --- in the worker thread

    async def _in_worker(
        self, function: Callable[..., "dict[int, Log] | None"], *arguments: object
    ) -> "dict[int, Log] | None":
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)
        except StorageError as error:
            log.error("a change of topics could not be carried out: %s", error)
            return None

    def _open_logs(self, topic: Topic, indexes: Sequence[int], config: LogConfig) -> dict[int, Log]:
        made = self._create_logs(topic, [index for index in indexes if not self._has_log(topic.name, index)], config)
        logs = {}
        for index in indexes:
            key = topic.name, index
            try:
                logs[index] = (
                    made.get(index) or self._find_log(topic, index, config) or self._create_log(topic, index, config)
                )
                self._told.discard(key)
            except StorageError as error:
                if key not in self._told:
                    log.error("the log of %s-%d could not be opened: %s", topic.name, index, error)
                self._told.add(key)
        return logs

    def _has_log(self, topic: str, index: int) -> bool:
        return any((topic, index) in log_dir.logs for log_dir in self._log_dirs)

    def _create_logs(self, topic: Topic, indexes: Sequence[int], config: LogConfig) -> dict[int, Log]:
        """Make many logs together, each in the folder that has the fewest; those that fail are tried again alone."""
        online = [log_dir for log_dir in self._log_dirs if not log_dir.is_offline]
        if len(indexes) < 2 or not online:
            return {}
        counts = {log_dir: len(log_dir.logs) for log_dir in online}
        groups: dict[LogDir, list[int]] = {log_dir: [] for log_dir in online}
        for index in indexes:
            emptiest = min(online, key=lambda log_dir: counts[log_dir])
            counts[emptiest] += 1
            groups[emptiest].append(index)
        made: dict[int, Log] = {}
        with ThreadPoolExecutor(SYNCING_LOGS_MAX, thread_name_prefix="runnel-making") as making:
            for log_dir, group in groups.items():
                with suppress(StorageError):
                    made |= log_dir.create_all(topic.name, group, topic.topic_id, config, making.map)
        return made

    def _find_log(self, topic: Topic, index: int, config: LogConfig) -> Log | None:
        key = topic.name, index
        found = []
        for log_dir in self._log_dirs:
            if log := log_dir.logs.get(key):
                if log_dir.topic_ids.get(key, topic.topic_id) == topic.topic_id:
                    found.append((key in log_dir.topic_ids, log.log_end_offset, log))
                else:
                    # Left from a topic of the same name that was deleted while this broker was down.
                    log_dir.delete(topic.name, index)
        if not found:
            return None
        # A folder that failed while the log was made in it keeps an empty one; the real one is elsewhere.
        *_, storage = max(found, key=lambda entry: entry[:2])
        storage.reconfigure(config)
        return storage

    def _create_log(self, topic: Topic, index: int, config: LogConfig) -> Log:
        online = [log_dir for log_dir in self._log_dirs if not log_dir.is_offline] or self._log_dirs
        *first, last = sorted(online, key=lambda log_dir: len(log_dir.logs))
        for log_dir in first:
            with suppress(StorageError):  # another folder may have room
                return log_dir.create(topic.name, index, topic.topic_id, config)
        return last.create(topic.name, index, topic.topic_id, config)

    def _delete_logs(self, topic: str, indexes: Sequence[int]) -> None:
        for log_dir in self._log_dirs:
            if here := [index for index in indexes if (topic, index) in log_dir.logs]:
                log_dir.delete(topic, *here)


def log_config(config: TopicConfig) -> LogConfig:
    """What a log needs to know of its topic's configuration."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        cleanup_policy_delete="delete" in config.cleanup_policy,
        cleanup_policy_compact="compact" in config.cleanup_policy,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        max_message_bytes=config.max_message_bytes,
        message_timestamp_type=config.message_timestamp_type,
        producer_id_expiration_ms=config.broker.producer_id_expiration_ms,
    )


def topics_of(records: Sequence[Record]) -> list[str]:
    """The topics that records speak of, each once."""
    return list(dict.fromkeys(filter(None, map(_topic_of, records))))


def _topic_of(record: Record) -> str | None:
    match record:
        case TopicRecord(name=name) | TopicRemoved(name=name) | PartitionRecord(topic=name):
            return name
        case ConfigRecord(kind=ConfigKind.TOPIC, name=name):
            return name
        case _:
            return None
