"""The partitions on this broker, kept in agreement with the cluster image.

`reconcile` makes the partitions of one topic what the image says, at start-up and after every change. Folders are
created and deleted in a worker thread; partitions are added and removed on the event loop. `settled` waits for these
changes. Changes of leaders take effect at once, so that a broker never leads longer than the image says. The partitions
of a deleted topic serve nothing from then on: there may soon be another topic of its name.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Protocol

from tailrace.base.invariant import invariant
from tailrace.base.limits import SYNCING_LOGS_MAX
from tailrace.base.sentinel import NO_BROKER
from tailrace.config.topic import TopicConfig
from tailrace.machines.controller.image import ClusterImage, Topic
from tailrace.machines.controller.record import (
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.lease import Lease
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.leadership import ReplicaWorld
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir

log = logging.getLogger("tailrace.runtime")


class Following(Protocol):
    """Fetches for the partitions that other brokers lead."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's current leader."""
        ...

    def leave(self, partition: Partition) -> None:
        """Stop fetching a partition."""
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
        """`may_lead` returns whether this broker's registration is admitted; until then it leads nothing."""
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
        self._high_watermarks: dict[tuple[str, int], int] = {}
        for log_dir in log_dirs:
            self._high_watermarks |= log_dir.read_high_watermarks()
        self._role_listeners: list[Callable[[Partition], None]] = []
        self._topics: dict[str, dict[int, Partition]] = {}
        # Partitions whose high watermark has changed since the last checkpoint.
        self.moved: set[Partition] = set()
        self._changes: asyncio.Queue[Sequence[Record]] = asyncio.Queue()
        self._told: set[tuple[str, int]] = set()  # logs that could not be opened, whose error was logged
        self._undeleted: dict[str, set[int]] = {}  # logs that could not be deleted

    def listen_roles(self, listener: Callable[[Partition], None]) -> None:
        """Call `listener` when this broker starts or stops to lead a partition, or leads it in another epoch."""
        self._role_listeners.append(listener)

    def _tell_role(self, partition: Partition) -> None:
        for listener in self._role_listeners:
            listener(partition)

    def get(self, topic: str, index: int) -> Partition:
        """Return the partition, or raise Kafka's error for one that is not on this broker."""
        try:
            partition = self._topics[topic][index]
        except KeyError:
            raise self._absence(topic, index) from None
        if partition.role.is_retired:
            raise self._absence(topic, index)
        return partition

    def all(self) -> list[Partition]:
        return [partition for partitions in self._topics.values() for partition in partitions.values()]

    def compacted(self) -> list[Partition]:
        """Return the partitions of compacted topics."""
        return [
            partition
            for partitions in self._topics.values()
            if any(first.log.config.cleanup_policy_compact for first in islice(partitions.values(), 1))
            for partition in partitions.values()
        ]

    def offline(self, topic: Topic, index: int) -> list[int]:
        """Return the offline replicas of a partition: this broker, if it could not open the log or the disk failed."""
        partition = self._topics.get(topic.name, {}).get(index)
        is_served = partition is not None and not partition.is_offline
        return [self._broker_id] if self._broker_id in topic.assignment[index] and not is_served else []

    def on_records(self, records: Sequence[Record]) -> None:
        """Apply changes of the image: leaders change at once, and changes that take time are queued."""
        left = [record for record in records if not self._is_carried_out(record)]
        for name in topics_of(left):
            self.assume_roles(name)
        if left:
            self._changes.put_nowait(left)

    def _is_carried_out(self, record: Record) -> bool:
        """Apply a change that concerns only the leader, and return whether it was one.

        Elections change thousands of partitions, so this avoids looking at the whole topic for each.
        """
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
        """Queue all topics: the image may have changed before this broker listened to its changes."""
        self.on_records([ConfigRecord(ConfigKind.TOPIC, name, {}) for name in {*self._image.topics, *self._topics}])

    def retry_missing(self) -> None:
        """Queue topics with logs that could not be opened or deleted; a full disk may have room again."""
        self.on_records([ConfigRecord(ConfigKind.TOPIC, name, {}) for name in self._undeleted])
        for topic in self._image.topics.values():
            here = self._topics.get(topic.name, {})
            if any(
                self._broker_id in replicas and index not in here for index, replicas in enumerate(topic.assignment)
            ):
                self.on_records([ConfigRecord(ConfigKind.TOPIC, topic.name, {})])

    async def settled(self) -> None:
        """Wait until every change so far has been carried out."""
        await self._changes.join()

    async def run(self) -> None:
        """Carry out queued changes, for ever."""
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
            # A bug in the change of one topic must not block all later changes.
            log.exception("a change of topic %s could not be carried out", name)

    async def reconcile(self, name: str) -> None:
        """Create, remove and update the partitions of one topic as the image says."""
        topic = self._image.topics.get(name)
        here = self._topics.get(name, {})
        if here and (topic is None or next(iter(here.values())).topic_id != topic.topic_id):
            await self._remove(name)
        if topic is not None:
            config = self._resolve_config(name)
            await self._remove_unassigned(topic)
            await self._add_missing(topic, config)
            self._update(topic, config)
        elif name in self._undeleted:
            await self._delete(name, ())

    async def _remove(self, name: str) -> None:
        removed = self._topics.pop(name)
        for partition in removed.values():
            self._retire(partition)
        await self._delete(name, removed)

    async def _remove_unassigned(self, topic: Topic) -> None:
        """Remove partitions that were reassigned to other brokers."""
        here = self._topics.get(topic.name, {})
        gone = [index for index in here if self._broker_id not in topic.assignment[index]]
        for index in gone:
            self._retire(here.pop(index))
        if gone or topic.name in self._undeleted:
            await self._delete(topic.name, gone)

    async def _delete(self, name: str, indexes: Collection[int]) -> None:
        """Delete logs of a topic, and those that could not be deleted before unless they are in use again."""
        doomed = {*indexes, *self._undeleted.pop(name, ())} - self._topics.get(name, {}).keys()
        await self._in_worker(self._delete_logs, name, sorted(doomed))
        if left := {index for index in doomed if self._has_log(name, index)}:
            self._undeleted[name] = left

    def _retire(self, partition: Partition) -> None:
        if partition.is_retired:
            return
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
        logs = await self._in_worker(self._open_logs, topic, missing, LogConfig.of_topic(config)) if missing else None
        for index, storage in (logs or {}).items():
            invariant(index not in here, f"{topic.name}-{index} is opened twice")
            high_watermark = self._known_high_watermark(topic, index)
            here[index] = Partition(
                *(topic.name, topic.topic_id, index, storage, config, self._flush_worker),
                high_watermark=high_watermark,
                lease=self._lease,
                moved=self.moved,
            )

    def _known_high_watermark(self, topic: Topic, index: int) -> int | None:
        """Return the high watermark of the last checkpoint; None if no other replica could know better."""
        if len(topic.assignment[index]) == 1:
            return None
        return self._high_watermarks.get((topic.name, index), 0)

    def _update(self, topic: Topic, config: TopicConfig) -> None:
        settings = LogConfig.of_topic(config)
        for partition in self._topics[topic.name].values():
            partition.config = config
            partition.log.reconfigure(settings)
        self.assume_roles(topic.name)

    # --- roles

    def assume_all_roles(self) -> None:
        """Check the leader of every partition again, because this broker was admitted or lost its registration."""
        for name in list(self._topics):
            self.assume_roles(name)

    def assume_roles(self, name: str) -> None:
        """Lead or follow each partition of a topic as the image says."""
        topic = self._image.topics.get(name)
        for index, partition in self._topics.get(name, {}).items():
            if topic is None or partition.topic_id != topic.topic_id:
                self._retire(partition)
            elif (record := topic.leadership.get(index)) is not None:
                self._assume_role(partition, record, topic.assignment[index])

    def _assume_role(self, partition: Partition, record: PartitionRecord, replicas: Sequence[int]) -> None:
        before = partition.is_leader, partition.leader_epoch
        if record.leader == self._broker_id and self._may_lead():
            self._following.leave(partition)
            partition.lead(record, replicas, self._world)
        else:
            partition.follow(record)
            is_led = record.leader not in (NO_BROKER, self._broker_id)
            # A replica on a failed disk cannot follow either, and soon leaves the ISR.
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
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not on this broker")
            if (topic, index) not in self._told:
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {topic}-{index} is still being opened")
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{index} could not be opened")
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    # --- in the worker thread

    async def _in_worker(
        self, function: Callable[..., "dict[int, Log] | None"], *arguments: object
    ) -> "dict[int, Log] | None":
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)
        except StorageError as error:
            log.error("logs could not be created or deleted: %s", error)
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
        """Create many logs together, each in the folder with the fewest; those that fail are retried one by one."""
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
        with ThreadPoolExecutor(SYNCING_LOGS_MAX, thread_name_prefix="tailrace-making") as making:
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
                    log = log_dir.reopen(*key) if log.is_closed else log
                    found.append((key in log_dir.topic_ids, log.log_end_offset, log))
                else:
                    # It belongs to a topic of the same name that was deleted while this broker was down.
                    log_dir.delete(topic.name, index)
        if not found:
            return None
        # A folder that failed while a log was created in it has an empty one; the real log is in another folder.
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


def topics_of(records: Sequence[Record]) -> list[str]:
    """Return the topics that records concern, each once."""
    return list(dict.fromkeys(filter(None, map(_topic_of, records))))


def _topic_of(record: Record) -> str | None:
    match record:
        case TopicRecord(name=name) | TopicRemoved(name=name) | PartitionRecord(topic=name):
            return name
        case ConfigRecord(kind=ConfigKind.TOPIC, name=name):
            return name
        case _:
            return None
