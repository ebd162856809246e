"""A topic that is deleted and created again under living producers and members.

A value that was acknowledged in a topic that is gone is gone with it. So each topic with the name is a partition of its
own in the history: `remade@2-0` is partition 0 of the second. A send that is under way when the topic is created again
may end in either. It becomes an operation of both, and at most one of them is acknowledged.
"""

import asyncio
from dataclasses import dataclass, field, replace
from random import Random

import tailrace.aio
from tailrace.client.cluster import Cluster
from tailrace.client.error import BufferFull, ClientError
from tailrace.client.fetch.reader import Reader
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.produce.delivery import RecordMetadata
from tailrace.sim.history import Pending
from tailrace.sim.incarnation import Incarnations
from tailrace.sim.late_write import LateWrites
from tailrace.sim.record_workload import Shape, fetched_records, make_topic
from tailrace.sim.refusal import settle_failed_send
from tailrace.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying
from tailrace.sim.world import Program, World

TOPIC = "remade"
GROUP = "remade-readers"
_TIMEOUT_MS = 2_000
_LATE_SHARE = 0.3
_GAPS_S = (0.0, 0.0, 0.05, 0.5)
_ACKNOWLEDGED_MIN = 3  # after all faults, by each producer


@dataclass(eq=False)
class _Send:
    """A value that is being sent, as an operation of each incarnation in which it may end."""

    process: str
    partition: int
    value: str
    is_sure: bool
    """Whether the topic was there when the value was sent."""
    operations: dict[int, Pending] = field(default_factory=dict)


class RemadeTopicWorkload:
    """Deletes and creates a topic in turn, while clients use it."""

    def __init__(
        self, world: World, shape: Shape, incarnations: Incarnations, late_writes: LateWrites, *, every_s: float
    ) -> None:
        self._world = world
        self._late_writes = late_writes
        self._shape = replace(shape, topic=TOPIC, partition_count=min(shape.partition_count, 2))
        self._every_s = every_s
        self._incarnations = incarnations
        self._unsettled: dict[_Send, None] = {}
        incarnations.on_next = self._begin_next

    async def prepare(self) -> None:
        await make_topic(self._world, self._shape)

    def programs(self) -> dict[str, Program]:
        lives = {"remaker": self._remake, "remade-producer": self._produce, "remade-member": self._consume}

        def trying(life: Program) -> Program:
            return lambda name: keep_trying(self._world, name, life)

        return {name: trying(life) for name, life in lives.items()}

    async def drain(self) -> None:
        await keep_trying(self._world, "drain-remade", self._drain)

    # --- the administrator

    async def _remake(self, name: str) -> None:
        random, late = (Random(f"{text} {self._world.seed}") for text in (name, f"late {name}"))
        async with tailrace.aio.Admin(self._world.bootstrap, request_timeout_ms=_TIMEOUT_MS) as admin:
            while not self._world.is_healed:
                await asyncio.sleep(random.expovariate(1 / self._every_s))
                if late.random() < _LATE_SHARE and await self._late_writes.provoke(late):
                    continue
                self._world.count("admin remake")
                self._world.note(f"delete {TOPIC} and create it again")
                try:
                    await admin.delete_topics([TOPIC])
                    await asyncio.sleep(random.choice(_GAPS_S))
                except FAILURES as error:
                    self._world.note(f"{name} failed: {error}")
                await make_topic(self._world, self._shape)
            while not self._world.is_ending:  # a request that the network held may still delete it
                await make_topic(self._world, self._shape)
                await asyncio.sleep(TRY_AGAIN_S)

    # --- the producer

    async def _produce(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        pending: set[asyncio.Task[None]] = set()
        self._acknowledged_count = 0
        number = 0
        async with tailrace.aio.Producer(self._world.bootstrap, config=self._shape.producer) as producer:
            while not self._world.is_ending or self._acknowledged_count < _ACKNOWLEDGED_MIN:
                for _ in range(random.choice([1, min(self._shape.burst_max, 10)])):
                    number += 1
                    partition = random.randrange(self._shape.partition_count)
                    await self._send(producer, _Send(name, partition, f"{name}:{number}", self._is_there), pending)
                await asyncio.sleep(random.expovariate(1 / self._shape.pause_s))
                if len(pending) >= self._shape.pipeline_max:
                    await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                await asyncio.wait(pending)

    @property
    def _is_there(self) -> bool:
        return self._incarnations.is_there

    async def _send(self, producer: tailrace.aio.Producer, send: _Send, pending: set[asyncio.Task[None]]) -> None:
        self._unsettled[send] = None
        self._begin(send, self._incarnations.current)
        try:
            future = await producer.send(TOPIC, send.value.encode(), partition=send.partition)
        except (BufferFull, *FAILURES) as error:
            del self._unsettled[send]
            for operation in send.operations.values():
                operation.fail(error)
            return
        task = asyncio.ensure_future(self._settle(send, future))
        pending.add(task)
        task.add_done_callback(pending.discard)

    def _begin_next(self) -> None:
        for send in self._unsettled:
            self._begin(send, self._incarnations.current)

    def _begin(self, send: _Send, number: int) -> None:
        if number not in send.operations:
            place = _place(number, send.partition)
            operation = self._world.recorder.invoke(send.process, "send", partition=place, value=send.value)
            send.operations[number] = operation

    async def _settle(self, send: _Send, future: asyncio.Future[RecordMetadata]) -> None:
        try:
            metadata = await future
        except FAILURES as error:
            del self._unsettled[send]
            for operation in send.operations.values():
                settle_failed_send(operation, error)
            return
        del self._unsettled[send]
        self._world.count("acknowledged in a topic that is remade")
        self._acknowledged_count += self._world.is_healed
        known = self._incarnations.acknowledged_in(send.value)
        for number, operation in send.operations.items():
            if known == {number} or (not known and send.is_sure and len(send.operations) == 1):
                operation.ok(offset=metadata.offset)
            else:
                operation.unknown(f"acknowledged, perhaps in another topic than {_place(number, send.partition)}")

    # --- readers

    async def _consume(self, name: str) -> None:
        consumer = tailrace.aio.Consumer(self._world.bootstrap, config={**self._shape.member, "group.id": GROUP})
        async with consumer.subscribe(TOPIC):
            while not self._world.is_ending:
                try:
                    if await consumer.poll(1.0):
                        await consumer.commit()
                except FAILURES as error:
                    self._world.note(f"{name}: {error}")
                    await asyncio.sleep(TRY_AGAIN_S)

    async def _drain(self, name: str) -> None:
        await make_topic(self._world, self._shape)
        number, polls = self._incarnations.number, list[list[list[object]]]()
        async with Cluster(self._world.bootstrap, client_id=name) as cluster, Reader(cluster, TOPIC) as reader:
            starts, ends = await reader.find_offsets(EARLIEST), await reader.find_offsets(LATEST)
            left = {partition for partition, start in starts.items() if start < ends[partition]}
            reader.seek({partition: starts[partition] for partition in left})
            while left:
                fetched = await anext(reader)
                place = _place(number, fetched.partition)
                polls.append([[place, *record[1:]] for record in fetched_records(fetched)])
                if fetched.next_offset >= ends[fetched.partition]:
                    left.discard(fetched.partition)
        if number != self._incarnations.number or not self._is_there:
            raise ClientError(f"{TOPIC} was deleted while it was read")
        recorder, places = self._world.recorder, [_place(number, partition) for partition in sorted(ends)]
        whole = recorder.invoke(name, "drain", partitions=places)
        for records in polls:
            recorder.invoke(name, "poll").ok(records=records)
        whole.ok()


def _place(number: int, partition: int) -> str:
    return f"{TOPIC}@{number}-{partition}"
