"""An administrator workload that creates, grows, reassigns and deletes topics during faults."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import tailrace.aio
from tailrace.client.admin.core import NewTopic
from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.record_workload import RecordWorkload
from tailrace.sim.workload import FAILURES, keep_trying
from tailrace.sim.world import Program, World

EXTRAS = ("extra-1", "extra-2")
PARTITIONS_MAX = 6
"""The most partitions that a topic has in a simulation, from its creation on or because it grows."""
_RECORDS = 5
_SETTINGS = {"request.timeout.ms": 1_500, "delivery.timeout.ms": 3_000, "linger.ms": 0}

Act = Callable[[tailrace.aio.Admin, Random], Awaitable[None]]


class AdminWorkload:
    """Reassigns and grows the topic of other clients; creates, writes and deletes topics of its own."""

    def __init__(self, world: World, records: RecordWorkload, *, every_s: float) -> None:
        self._world = world
        self._records = records
        self._every_s = every_s

    async def prepare(self) -> None:
        """Do nothing; no preparation is needed."""

    def programs(self) -> dict[str, Program]:
        return {"administrator": self._run}

    async def drain(self) -> None:
        """Do nothing: no check depends on topics that are created and deleted."""

    async def _run(self, name: str) -> None:
        await keep_trying(self._world, name, self._administrate)

    async def _administrate(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        acts: list[Act] = [self._move, self._move, self._move, self._call_back, self._elect, self._grow]
        acts += [self._create, self._create, self._delete]
        async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=2_000) as admin:
            while not self._world.is_ending:
                await asyncio.sleep(random.expovariate(1 / self._every_s))
                act = random.choice(acts)
                self._world.count(f"admin {act.__name__.strip('_').replace('_', ' ')}")
                try:
                    await act(admin, random)
                except FAILURES as error:
                    self._world.note(f"{name} failed: {error}")

    async def _move(self, admin: tailrace.aio.Admin, random: Random) -> None:
        """Reassign a partition to other brokers, with more or fewer replicas, or in another order."""
        target = await self._choose(admin, random)
        if target is not None:
            brokers = [broker.broker_id for broker in self._world.brokers]
            replicas = random.sample(brokers, random.choice([2, 3, 3]))
            self._world.note(f"move {target.topic}-{target.partition} to {replicas}")
            await admin.alter_partition_reassignments({target: replicas})

    async def _call_back(self, admin: tailrace.aio.Admin, random: Random) -> None:
        moving = list(await admin.list_partition_reassignments())
        if moving:
            target = random.choice(moving)
            self._world.note(f"call {target.topic}-{target.partition} back")
            await admin.alter_partition_reassignments({target: None})

    async def _elect(self, admin: tailrace.aio.Admin, random: Random) -> None:
        await admin.elect_leaders()

    async def _grow(self, admin: tailrace.aio.Admin, random: Random) -> None:
        name = random.choice([self._records.shape.topic, *EXTRAS])
        found = next((topic for topic in await admin.list_topics() if topic.name == name), None)
        if found is None or len(found.partitions) >= PARTITIONS_MAX:
            return
        count = len(found.partitions) + 1
        self._world.note(f"{name} grows to {count}")
        error = (await admin.create_partitions({name: count}))[name]
        if error is None and name == self._records.shape.topic:
            self._records.grow(count)

    async def _create(self, admin: tailrace.aio.Admin, random: Random) -> None:
        name = random.choice(EXTRAS)
        configs = {"min.insync.replicas": "2"}
        new = NewTopic(name, random.randint(1, 2), random.choice([2, 3]), configs)
        self._world.note(f"create {name}")
        await admin.create_topics([new])
        async with tailrace.aio.Producer(self._world.bootstrap, config=_SETTINGS) as producer:
            sent = [await producer.send(name, f"{number}".encode()) for number in range(_RECORDS)]
            await asyncio.gather(*sent, return_exceptions=True)

    async def _delete(self, admin: tailrace.aio.Admin, random: Random) -> None:
        name = random.choice(EXTRAS)
        self._world.note(f"delete {name}")
        await admin.delete_topics([name])

    async def _choose(self, admin: tailrace.aio.Admin, random: Random) -> TopicPartition | None:
        topics = await admin.list_topics(include_internal=True)
        found = [TopicPartition(topic.name, index) for topic in topics for index in range(len(topic.partitions))]
        own = [each for each in found if each.topic == self._records.shape.topic]
        return random.choice(own if own and random.random() < 0.5 else found) if found else None
