"""Who looks at what transactions write: readers of what is committed, readers of everything, and the last reader."""

import asyncio
from random import Random

import runnel.aio
from runnel.client.cluster import Cluster
from runnel.client.fetch import FetchOptions
from runnel.client.isolation import Isolation
from runnel.client.offset import EARLIEST, LATEST, find_offsets
from runnel.client.reader import Reader
from runnel.sim.history import READ_COMMITTED, READ_UNCOMMITTED
from runnel.sim.record_workload import fetched_records, poll
from runnel.sim.transaction_client import GROUP, TransactionShape
from runnel.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying, partition_name
from runnel.sim.world import World

_SEEK_SHARE = 0.02
_LOOK_S = 0.5
_STUCK_S = 60.0  # longer than any transaction may last, and than any request takes that is tried again


class Auditor:
    """Reads the target from its beginning, now and then again, with one isolation or the other."""

    def __init__(self, world: World, shape: TransactionShape, *, sees_all: bool = False) -> None:
        self._world = world
        self._shape = shape
        self._isolation = READ_UNCOMMITTED if sees_all else READ_COMMITTED

    async def run(self, name: str) -> None:
        """Read until the world ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        topic, count = self._shape.target, self._shape.partition_count
        config = {**self._shape.consumer, "isolation.level": self._isolation}
        consumer = runnel.aio.Consumer(self._world.bootstrap, config=config)
        async with consumer.assign([(topic, partition, "earliest") for partition in range(count)]):
            while not self._world.is_ending:
                if random.random() < _SEEK_SHARE:
                    partition = random.randrange(count)
                    self._world.recorder.invoke(name, "assign", partitions=[partition_name((topic, partition))]).ok()
                    consumer.seek(topic, partition, "earliest")
                await poll(self._world, name, consumer, isolation=self._isolation)


class Looker:
    """Looks at what the group of the copiers has committed."""

    def __init__(self, world: World, shape: TransactionShape) -> None:
        self._world = world
        self._places = [(shape.source, partition) for partition in range(shape.partition_count)]

    async def run(self, name: str) -> None:
        """Look until the world ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        async with runnel.aio.Admin(self._world.bootstrap, request_timeout_ms=5_000) as admin:
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
    """Read everything to the very end, though only what is committed; where that does not come, a transaction hangs."""
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
