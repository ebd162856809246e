"""An administrator workload that changes limits and deletes records of topics while other clients use them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random

import tailrace.aio
from tailrace.client.admin.core import ResourceType
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError
from tailrace.sim.admin_workload import PARTITIONS_MAX
from tailrace.sim.record_workload import Shape
from tailrace.sim.takeover import Takeover
from tailrace.sim.workload import FAILURES, keep_trying, partition_name
from tailrace.sim.world import Program, World
from tailrace.storage.log_config import LogConfig

_NAME = "limiter"
_TIMEOUT_MS = 2_000
_LOWERED_S = (0.05, 0.2, 0.5, 2.0)
_SHORT_S = (0.3, 1.0)
_RESTORE_EVERY_S = 0.5
_KEPT = (LogConfig().retention_ms, LogConfig().retention_bytes)
_APPLIED_LOOK_S = 0.1
_APPLIED_LOOKS_MAX = 30
_DOUBT_SHARE = 0.4
_STRAND_SHARE = 0.3
_DOUBT_S = (0.02, 0.3)
_LONG_DOUBT_S = (1.5, 4.0)
_WRITTEN_S = (0.05, 0.4)
_LOSS_SHARE = 0.3
_GATHERED_S = (0.1, 0.4)
_LATE_S = (0.3, 2.0)
_MANY_SHARE = 0.3
_TAKEOVER_SHARE = 0.2  # of the seeds
_BLACK_OUT_SHARE = 0.2  # of the deletions

_LIMITS: Mapping[str, tuple[int, ...]] = {
    "max.message.bytes": (1, 100, 300, 1_200, 5_000),
    "message.timestamp.before.max.ms": (0, 10, 1_000),
    "message.timestamp.after.max.ms": (0, 10, 1_000),
    "min.insync.replicas": (3, 5),  # only raised: with a lower one, a power loss may lose acknowledged records
}
"""The limits that are changed, and the values by which they reject some batches or all of them."""

_OF_BATCHES = ("max.message.bytes", "message.timestamp.before.max.ms")
"""The limits by which every batch may be rejected for good."""

_DRAWN = ("max.message.bytes", *_LIMITS)

_RETENTIONS: tuple[Mapping[str, str], ...] = ({"retention.bytes": "0"}, {"retention.ms": "50"})
_SMALL_SEGMENTS = {"internal.segment.bytes": "300"}  # so that there is a segment that retention may delete
_CHANGED = (*_LIMITS, *_SMALL_SEGMENTS, *(config for retention in _RETENTIONS for config in retention))

Act = Callable[[str, tailrace.aio.Admin, Random], Awaitable[None]]


class LiveTopicWorkload:
    """Lowers limits of topics that are in use and restores them after a while, and deletes the oldest records."""

    def __init__(self, world: World, shapes: Sequence[Shape], *, every_s: float) -> None:
        """`shapes` name the topics and their configs."""
        self._world = world
        self._configs = {shape.topic: dict(shape.topic_configs) for shape in shapes}
        self._every_s = every_s
        self._strandings = Random(f"strandings {world.seed}")
        self._takeover = Takeover(world)
        self._black_outs = Random(f"black outs {world.seed}")

    async def prepare(self) -> None:
        """Do nothing; others create the topics."""

    def programs(self) -> dict[str, Program]:
        return {_NAME: self._run}

    async def drain(self) -> None:
        """Look where the logs start."""
        await keep_trying(self._world, "last-look", self._look)

    async def _run(self, name: str) -> None:
        await keep_trying(self._world, name, self._change)

    async def _change(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        acts: list[Act] = [self._limit, self._limit, self._limit, self._delete_records, self._shorten_retention]
        if Random(f"takeovers {self._world.seed}").random() < _TAKEOVER_SHARE:
            acts += [self._take_over] * 3
        async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=_TIMEOUT_MS) as admin:
            await self._restore_all(admin)  # an earlier life may have left a limit
            while not self._world.is_healed:
                await asyncio.sleep(random.expovariate(1 / self._every_s))
                try:
                    await random.choice(acts)(name, admin, random)
                except FAILURES as error:
                    self._world.note(f"{name} failed: {error}")
            # A request that the network held may still lower a limit after it was restored.
            while not self._world.is_ending:
                await self._restore_all(admin)
                await asyncio.sleep(_RESTORE_EVERY_S)

    # --- limits

    async def _limit(self, name: str, admin: tailrace.aio.Admin, random: Random) -> None:
        """Lower a limit, so that the topic rejects batches that it took before, and restore it."""
        topic, limit = random.choice(list(self._configs)), random.choice(_DRAWN)
        value, seconds = random.choice(_LIMITS[limit]), random.choice(_LOWERED_S)
        chance = random.random()
        strands = _DOUBT_SHARE <= chance < _DOUBT_SHARE + _STRAND_SHARE and limit in _OF_BATCHES
        value = min(_LIMITS[limit]) if strands else value
        self._world.count(f"admin limit {limit}")
        self._world.note(f"{topic} has {limit}={value} for {seconds:.2f} s")
        if chance < _DOUBT_SHARE:
            self._lose_replies(_LOSS_SHARE, random.uniform(*_DOUBT_S))
        elif strands:
            self._strand_producers()
        try:
            await admin.alter_configs(ResourceType.TOPIC, topic, {limit: str(value)})
            if strands:
                await self._world.stranding.wait_refused(_GATHERED_S[1] + seconds)
            else:
                await asyncio.sleep(seconds)
        finally:
            await self._restore(admin, topic, limit)

    def _lose_replies(self, share: float, seconds: float) -> None:
        """Leave the clients in doubt what is written, so that they repeat it."""
        network = self._world.loop.network
        for client in self._world.clients:
            for broker in self._world.brokers if client.name != _NAME else ():
                network.lose(broker.host, client.host, share)
                self._world.loop.call_later(seconds, partial(network.lose, broker.host, client.host, 0.0))

    def _strand_producers(self) -> None:
        """Let what producers have under way arrive after they have repeated it, and have given it up."""
        gathered_s, late_s = self._strandings.uniform(*_GATHERED_S), self._strandings.uniform(*_LATE_S)
        hosts = {client.host for client in self._world.clients if client.name.startswith("producer-")}
        self._world.count("admin strand producers")
        self._world.note(f"what producers have sent in {gathered_s:.2f} s arrives up to {late_s:.2f} s late")
        self._world.stranding.strand(hosts, gathered_s, late_s)

    async def _restore(self, admin: tailrace.aio.Admin, topic: str, *limits: str) -> None:
        before = self._configs[topic]
        await admin.alter_configs(ResourceType.TOPIC, topic, {limit: before.get(limit) for limit in limits})

    async def _restore_all(self, admin: tailrace.aio.Admin) -> None:
        for topic in self._configs:
            await self._restore(admin, topic, *_CHANGED)

    # --- records

    async def _delete_records(self, name: str, admin: tailrace.aio.Admin, random: Random) -> None:
        """Delete some of the oldest records of a partition, or all."""
        target = random.choice(await self._partitions(admin))
        start = await self._find_start(name, admin, target)
        end = (await admin.list_offsets(target.topic, {target.partition: LATEST}))[target.partition].offset
        if end <= start:
            return
        offset = random.randint(start + 1, end) if random.random() < _MANY_SHARE else min(start + 5, end)
        await self._delete_below(name, admin, target, offset)

    async def _take_over(self, name: str, admin: tailrace.aio.Admin, random: Random) -> None:
        """Delete all records of a partition while its producers are in doubt, and let a new replica lead it."""
        target = random.choice(await self._partitions(admin))
        if (kept := await self._takeover.prepare(admin, target)) is None:
            return
        self._lose_replies(1.0, random.uniform(*_LONG_DOUBT_S))
        await asyncio.sleep(random.uniform(*_WRITTEN_S))
        end = (await admin.list_offsets(target.topic, {target.partition: LATEST}))[target.partition].offset
        await self._delete_below(name, admin, target, end)
        await self._takeover.give_to_another(admin, target, kept)

    async def _delete_below(self, name: str, admin: tailrace.aio.Admin, target: TopicPartition, offset: int) -> None:
        self._world.count("admin delete records")
        self._world.note(f"delete the records of {target} below {offset}")
        place = partition_name(target)
        operation = self._world.recorder.invoke(name, "delete-records", partition=place, offset=offset)
        try:
            outcome = (await admin.delete_records({target: offset}))[target]
        except FAILURES as error:
            operation.unknown(error)
            raise
        if isinstance(outcome, ApiError):
            operation.unknown(outcome)
        else:
            operation.ok(low_watermark=outcome)
            if self._black_outs.random() < _BLACK_OUT_SHARE:
                self._world.black_out()

    async def _shorten_retention(self, name: str, admin: tailrace.aio.Admin, random: Random) -> None:
        """Keep hardly any records of a topic for a while."""
        topic, retention = random.choice(list(self._configs)), random.choice(_RETENTIONS)
        seconds = random.choice(_SHORT_S)
        self._world.count("admin shorten retention")
        self._world.note(f"{topic} has {dict(retention)} for {seconds} s")
        recorder, targets = self._world.recorder, [TopicPartition(topic, index) for index in range(PARTITIONS_MAX)]
        operations = {each: recorder.invoke(name, "retention", partition=partition_name(each)) for each in targets}
        try:
            await admin.alter_configs(ResourceType.TOPIC, topic, {**_SMALL_SEGMENTS, **retention})
            await asyncio.sleep(seconds)
        finally:
            await self._restore(admin, topic, *_CHANGED)
        if not await self._is_restored(topic):
            return  # a broker may still delete whatever is written
        known = [each.partition for each in await self._partitions(admin) if each.topic == topic]
        ends = await admin.list_offsets(topic, dict.fromkeys(known, LATEST))
        for target, operation in operations.items():
            operation.ok(offset=ends[target.partition].offset if target.partition in ends else 0)

    async def _is_restored(self, topic: str) -> bool:
        """Wait until every running broker keeps the records of a topic again; False if one does not soon."""
        for _ in range(_APPLIED_LOOKS_MAX):
            await asyncio.sleep(_APPLIED_LOOK_S)
            running = [broker for broker in self._world.brokers if broker.is_up]
            configs = [each.log.config for broker in running for each in broker.replicas() if each.topic == topic]
            kept = {(each.retention_ms, each.retention_bytes) for each in configs}
            if kept <= {_KEPT} and all(broker.broker is not None for broker in running):
                return True
        return False

    async def _find_start(self, name: str, admin: tailrace.aio.Admin, target: TopicPartition) -> int:
        operation = self._world.recorder.invoke(name, "log-start", partition=partition_name(target))
        try:
            found = (await admin.list_offsets(target.topic, {target.partition: EARLIEST}))[target.partition]
        except FAILURES as error:
            operation.unknown(error)
            raise
        operation.ok(offset=found.offset)
        return found.offset

    async def _look(self, name: str) -> None:
        async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=_TIMEOUT_MS) as admin:
            for target in await self._partitions(admin):
                await self._find_start(name, admin, target)

    async def _partitions(self, admin: tailrace.aio.Admin) -> list[TopicPartition]:
        found = [topic for topic in await admin.list_topics() if topic.name in self._configs]
        return [TopicPartition(topic.name, index) for topic in found for index in range(len(topic.partitions))]
