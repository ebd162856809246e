"""The coordinators of one kind on this broker: a shard for each partition of their topic that it leads.

Shards are made and loaded when the broker begins to lead a partition, and unloaded when it stops. The topic is made
when a client first asks for a coordinator. One set of deadlines serves them all.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic

from tailrace.base.clock import Clock
from tailrace.base.sentinel import NO_EPOCH
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import Record, TopicRemoved
from tailrace.machines.controller.topic import NewTopic
from tailrace.machines.decision import Decision, Token
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.message import Message
from tailrace.runtime.coordinator.shard import Answer, CoordinatorShard, M, R
from tailrace.runtime.coordinator.timer import ShardTimers
from tailrace.runtime.coordinator.topic import partition_for
from tailrace.runtime.partition import Partition
from tailrace.runtime.replication.replicas import Replicas
from tailrace.runtime.transaction.guard import TransactionGuard

log = logging.getLogger("tailrace.runtime")


class CoordinatorShards(ABC, Generic[M, R]):
    """The shards of one kind of coordinator on this broker, found by group or transactional id, and their timers."""

    def __init__(
        self,
        topic: str,
        clock: Clock,
        image: ClusterImage,
        replicas: Replicas,
        create_topic: Callable[[NewTopic], Awaitable[object]],
    ) -> None:
        """`topic` stores the state of this kind of coordinator."""
        self._topic = topic
        self._clock = clock
        self._image = image
        self._replicas = replicas
        self._create_topic = create_topic
        self._shards: dict[int, CoordinatorShard[M, R]] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._making = asyncio.Lock()
        self._timers = ShardTimers(clock)

    @abstractmethod
    def _new_topic(self, broker_count: int) -> NewTopic:
        """Return the topic to create in a cluster of so many brokers."""

    @abstractmethod
    def _new_shard(self, partition: Partition) -> CoordinatorShard[M, R]:
        """Return a shard for a partition that this broker leads; it is not loaded yet."""

    # --- life

    def start(self) -> None:
        """Begin to load the shards of the partitions that this broker leads."""
        self._replicas.listen_roles(self.on_role)
        for index in range(self.partition_count):
            try:
                self.on_role(self._replicas.get(self._topic, index))
            except ApiError as error:
                if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    log.error("%s-%d cannot be loaded: %s", self._topic, index, error)

    def on_role(self, partition: Partition) -> None:
        """Load or discard a shard, because this broker has begun or ceased to lead its partition."""
        if partition.topic != self._topic:
            return
        shard = self._shards.get(partition.index)
        if shard is not None and shard.is_gone:
            shard.discard()
            del self._shards[partition.index]
        if partition.is_leader:
            self.shard_at(partition.index)

    async def stop(self) -> None:
        """Stop the timers and reject the requests that wait."""
        self._timers.stop()
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        self._unload_all()

    async def loaded(self) -> None:
        """Wait until all loads under way are finished."""
        while self._loading:
            await asyncio.wait(self._loading)

    async def make_topic(self) -> bool:
        """Create the topic of the coordinators if there is none; return whether this call created it.

        While another call creates it, the topic is in the image before its logs are open: wait until it can be used.
        """
        if self._topic in self._image.topics and not self._making.locked():
            return False
        async with self._making:
            if self._topic in self._image.topics:
                return False
            await self._create_topic(self._new_topic(max(1, len(self._image.active_racks()))))
            await self.loaded()
            return True

    def on_records(self, records: Sequence[Record]) -> None:
        """Unload all shards if their topic was deleted."""
        if any(isinstance(record, TopicRemoved) and record.name == self._topic for record in records):
            self._unload_all()

    def fire_due(self) -> None:
        """Fire the timers that are due."""
        self._timers.fire_due()

    # --- requests

    async def ask(
        self,
        name: str,
        decide: Callable[[M, int, Token], Decision[R]],
        answered: Callable[[Answer], None] | None = None,
        guard: TransactionGuard | None = None,
    ) -> Message:
        """Let the coordinator of a name decide, and wait for its reply; `answered` gets a reply that is pending."""
        answer = self.shard(name).ask(decide, guard)
        if answered is not None and not answer.done():
            answered(answer)
        return await answer

    def machine(self, name: str) -> M:
        """Return the machine of a name, for reading; raise ApiError if it is on another broker or not loaded."""
        shard = self.shard(name)
        shard.check_loaded()
        return shard.machine

    async def acknowledged(self, name: str) -> None:
        """Wait until everything that the coordinator of a name knows now may be acknowledged."""
        await self.shard(name).acknowledged()

    def machines(self) -> list[M]:
        """Return all machines of this broker, for reading; raise ApiError if one of them is not loaded."""
        for shard in self._shards.values():
            shard.check_loaded()
        return [shard.machine for shard in self._shards.values()]

    def loaded_machines(self) -> list[M]:
        """Return the loaded machines, for reading."""
        return [shard.machine for shard in self._shards.values() if shard.is_loaded and not shard.is_gone]

    def shard(self, name: str) -> CoordinatorShard[M, R]:
        """Return the shard of a name; raise NOT_COORDINATOR if it is not on this broker, or there is no topic yet."""
        count = self.partition_count
        if count == 0:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.shard_at(partition_for(name, count))

    @property
    def partition_count(self) -> int:
        """The number of partitions of the topic; 0 before it is created."""
        topic = self._image.topics.get(self._topic)
        return 0 if topic is None else topic.partition_count

    def shard_at(self, index: int) -> CoordinatorShard[M, R]:
        """Return the shard of a partition, which may be loading; raise NOT_COORDINATOR if another broker leads it."""
        shard = self._shards.get(index)
        if shard is not None and not shard.is_gone:
            return shard
        try:
            partition = self._replicas.get(self._topic, index)
            partition.check_leader(NO_EPOCH)
        except ApiError as error:
            raise ApiError(ErrorCode.NOT_COORDINATOR, error.message) from error
        if shard is not None:
            shard.discard()
        shard = self._shards[index] = self._new_shard(partition)
        task = asyncio.get_running_loop().create_task(shard.load())
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)
        return shard

    def _unload_all(self) -> None:
        for shard in self._shards.values():
            shard.discard()
        self._shards = {}
