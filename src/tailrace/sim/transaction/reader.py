"""Readers of transactional data: `read_committed`, `read_uncommitted`, and the final reader."""

import asyncio
from random import Random

import tailrace.aio
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.reader import Reader
from tailrace.client.fetch.request import FetchOptions
from tailrace.client.offset import EARLIEST, LATEST, find_offsets
from tailrace.sim.face import open_consumer
from tailrace.sim.history import READ_COMMITTED, READ_UNCOMMITTED
from tailrace.sim.record_workload import fetched_records, poll
from tailrace.sim.transaction.client import GROUP, TransactionShape
from tailrace.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying, partition_name
from tailrace.sim.world import World

_SEEK_SHARE = 0.02
_LOOK_S = 0.5
_STUCK_S = 60.0  # longer than any transaction timeout, and than any request with its retries


class Auditor:
    """Reads the target from its start, sometimes again, with one of the isolation levels."""

    def __init__(self, world: World, shape: TransactionShape, *, sees_all: bool = False) -> None:
        self._world = world
        self._shape = shape
        self._isolation = READ_UNCOMMITTED if sees_all else READ_COMMITTED

    async def run(self, name: str) -> None:
        """Read until the simulation ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        topic, count = self._shape.target, self._shape.partition_count
        config = {**self._shape.consumer, "isolation.level": self._isolation}
        consumer = open_consumer(self._world, name, config)
        async with consumer.assign([(topic, partition, "earliest") for partition in range(count)]):
            while not self._world.is_ending:
                if random.random() < _SEEK_SHARE:
                    partition = random.randrange(count)
                    self._world.recorder.invoke(name, "assign", partitions=[partition_name((topic, partition))]).ok()
                    consumer.seek(topic, partition, "earliest")
                await poll(self._world, name, consumer, isolation=self._isolation)


class Looker:
    """Fetches the committed offsets of the copiers' group."""

    def __init__(self, world: World, shape: TransactionShape) -> None:
        self._world = world
        self._places = [(shape.source, partition) for partition in range(shape.partition_count)]

    async def run(self, name: str) -> None:
        """Fetch until the simulation ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=5_000) as admin:
            while not self._world.is_ending:
                await asyncio.sleep(_LOOK_S)
                operation = self._world.recorder.invoke(name, "committed", group=GROUP)
                try:
                    found = await admin.list_group_offsets(GROUP, self._places)
                except FAILURES as error:
                    operation.unknown(error)
                    await asyncio.sleep(TRY_AGAIN_S)
                    continue
                offsets = dict.fromkeys(self._places, -1) | {each: at.offset for each, at in found.items()}
                operation.ok(offsets={partition_name(target): offset for target, offset in offsets.items()})


async def drain_committed(world: World, topic: str, name: str) -> None:
    """Read all committed data to the end. If the end is not reached, a transaction hangs."""
    options = FetchOptions(isolation=Isolation.READ_COMMITTED)
    async with Cluster(world.bootstrap, client_id=name) as cluster, Reader(cluster, topic, options=options) as reader:
        starts = await reader.find_offsets(EARLIEST)
        ends = await find_offsets(cluster, topic, dict.fromkeys(starts, LATEST))
        places = [partition_name((topic, partition)) for partition in sorted(ends)]
        whole = world.recorder.invoke(name, "drain", partitions=places)
        left = {partition for partition, start in starts.items() if start < ends[partition]}
        reader.seek({partition: starts[partition] for partition in left})
        while left:
            operation = world.recorder.invoke(name, "poll")
            try:
                fetched = await asyncio.wait_for(anext(reader), _STUCK_S)
            except TimeoutError:
                operation.ok(records=[])
                break
            operation.ok(records=fetched_records(fetched))
            if fetched.next_offset >= ends[fetched.partition]:
                left.discard(fetched.partition)
        whole.ok(stuck=[partition_name((topic, partition)) for partition in sorted(left)])
