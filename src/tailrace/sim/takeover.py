"""A new replica takes a partition over, whose records were deleted while its producers wait for the replies.

The new replica begins after the deleted records. It knows of them only what its leader tells it. When the producers
repeat their batches, it must know that these were written.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import tailrace.aio
from tailrace.client.metadata import Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.sim.world import World

_KEPT = 2  # min.insync.replicas
_LOOK_S = 0.05
_LOOKS_MAX = 60


class Takeover:
    """Takes a replica from a partition and gives it another one, which becomes its leader."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"takeover {world.seed}")

    async def prepare(self, admin: tailrace.aio.Admin, target: TopicPartition) -> tuple[int, ...] | None:
        """Leave the partition with two replicas; return them, or None if there is no other broker or it takes long."""
        found = (await admin.describe_topics([target.topic]))[target.topic]
        if not isinstance(found, Topic) or len(self._world.brokers) <= _KEPT:
            return None
        replicas = found.partitions[target.partition].replicas
        kept = tuple(self._random.sample(replicas, min(_KEPT, len(replicas))))
        return kept if await self._move(admin, target, kept) else None

    async def give_to_another(self, admin: tailrace.aio.Admin, target: TopicPartition, kept: Sequence[int]) -> None:
        """Give the partition a new replica, and let this one lead."""
        new = self._random.choice([each.broker_id for each in self._world.brokers if each.broker_id not in kept])
        if await self._move(admin, target, [new, *kept]):
            self._world.count("admin take over")
            await admin.elect_leaders([target])

    async def _move(self, admin: tailrace.aio.Admin, target: TopicPartition, replicas: Sequence[int]) -> bool:
        self._world.note(f"move {target} to {list(replicas)}")
        await admin.alter_partition_reassignments({target: replicas})
        for _ in range(_LOOKS_MAX):
            if target not in await admin.list_partition_reassignments():
                return True
            await asyncio.sleep(_LOOK_S)
        return False
