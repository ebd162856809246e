"""What a member of the consumer protocol makes of its assignments, with a reader that takes its time."""

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tailrace.client.group.consumer_protocol import ConsumerMember
from tailrace.client.group.member import StepKind
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.messages.consumer_group import ConsumerGroupHeartbeatResponseTopicPartitions

TOPIC_ID = UUID(int=1)


class Reader:
    """A group whose reader takes the next step when it is told to."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(group_instance_id=None)
        self.cluster = SimpleNamespace(view=SimpleNamespace(topics={"t": SimpleNamespace(topic_id=TOPIC_ID)}))
        self.owned: set[TopicPartition] = set()
        self.waiting: list[tuple[StepKind, set[TopicPartition], asyncio.Future[None]]] = []

    async def change(self, kind: StepKind, partitions: Iterable[TopicPartition]) -> None:
        step = kind, set(partitions), asyncio.get_running_loop().create_future()
        self.waiting.append(step)
        try:
            await step[2]
        finally:
            if step in self.waiting:
                self.waiting.remove(step)

    def take(self) -> None:
        kind, partitions, done = self.waiting.pop(0)
        self.owned = self.owned | partitions if kind is StepKind.ASSIGN else self.owned - partitions
        done.set_result(None)


def aim(member: ConsumerMember, *partitions: int) -> None:
    topics = [ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))]
    member._aim(topics if partitions else [])


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def play(reader: Any, member: ConsumerMember) -> list[set[int]]:
    """Return the partitions that the member owns after the reader took a step, and what waits then."""
    aim(member, 0, 1)
    await settle()
    assert [(kind, len(partitions)) for kind, partitions, _ in reader.waiting] == [(StepKind.ASSIGN, 2)]
    aim(member, 1)
    await settle()
    reader.take()
    await settle()
    return [{each.partition for each in reader.owned}, {each.partition for each in member._settled}]


def test_a_partition_that_was_taken_back_before_the_reader_took_it_is_never_owned() -> None:
    """The reader was busy, and the member took a partition that the coordinator had given to another one since."""

    async def work() -> list[set[int]]:
        reader: Any = Reader()
        member = ConsumerMember(reader)
        reconciling = asyncio.create_task(member._reconcile_when_due())
        found = await play(reader, member)
        reconciling.cancel()
        return found

    assert asyncio.run(work()) == [{1}, {1}]
