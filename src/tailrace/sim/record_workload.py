"""Clients that send and read during faults, and a final reader of everything."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

import tailrace.aio
from tailrace.client.admin.core import NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.error import BufferFull
from tailrace.client.fetch.isolation import visible_batches
from tailrace.client.fetch.reader import Reader
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.fetch.request import Fetched
from tailrace.client.offset import EARLIEST, LATEST
from tailrace.client.produce.delivery import RecordMetadata
from tailrace.client.setting import SettingValue
from tailrace.protocol.errors import ApiError
from tailrace.records.record import read_records
from tailrace.sim.face import SimConsumer, SimProducer, open_consumer, open_producer
from tailrace.sim.history import Pending
from tailrace.sim.refusal import settle_failed_send
from tailrace.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying, partition_name
from tailrace.sim.world import ACKNOWLEDGED, Program, World


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of the clients of one seed."""

    topic: str
    partition_count: int
    replication_factor: int
    topic_configs: tuple[tuple[str, str], ...]
    producer: dict[str, SettingValue]
    consumer: dict[str, SettingValue]
    member: dict[str, SettingValue]
    pause_s: float  # between two bursts of a producer, on average
    pipeline_max: int
    burst_max: int  # records that a producer sends without a pause
    value_bytes: int
    producer_count: int = 2
    member_count: int = 2
    consumer_count: int = 1
    record_age_ms: int = 0  # the age of records when they are sent, by their timestamps


class RecordWorkload:
    """Producers and consumers of one topic."""

    def __init__(self, world: World, shape: Shape) -> None:
        self.world = world
        self.shape = shape
        self.partition_count = shape.partition_count

    def grow(self, partition_count: int) -> None:
        """Record the new number of partitions of the topic."""
        self.partition_count = max(partition_count, self.partition_count)

    async def prepare(self) -> None:
        await make_topic(self.world, self.shape)

    def programs(self) -> dict[str, Program]:
        shape = self.shape
        kinds: list[tuple[str, int, Callable[[RecordWorkload], Runs]]] = [
            ("producer", shape.producer_count, SendingClient),
            ("consumer", shape.consumer_count, ReadingClient),
        ]
        return {f"{name}-{number}": kind(self).run for name, count, kind in kinds for number in range(1, count + 1)}

    async def drain(self) -> None:
        """Read everything with a client that was not part of the faults."""
        await keep_trying(self.world, "drain", lambda name: _drain(self.world, self.shape.topic, name))


class Runs(Protocol):
    """A client that can be started."""

    async def run(self, name: str) -> None: ...


async def make_topic(world: World, shape: Shape) -> None:
    """Create the topic, retrying until it succeeds."""
    new = NewTopic(shape.topic, shape.partition_count, shape.replication_factor, dict(shape.topic_configs))
    while True:
        try:
            async with tailrace.aio.Admin(world.bootstrap, request_timeout_ms=5_000) as admin:
                answer = (await admin.create_topics([new]))[shape.topic]
                if not isinstance(answer, ApiError) or answer.code.name == "TOPIC_ALREADY_EXISTS":
                    return
        except FAILURES:
            pass
        await asyncio.sleep(TRY_AGAIN_S)


class SendingClient:
    """A producer that sends numbered values, several at a time, and records the outcome of each."""

    def __init__(self, workload: RecordWorkload) -> None:
        self._workload = workload
        self._world = workload.world
        self._shape = workload.shape

    async def run(self, name: str) -> None:
        """Send until the simulation ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        pending: set[asyncio.Task[None]] = set()
        async with open_producer(self._world, name, self._shape.producer) as producer:
            number = 0
            while not self._world.is_ending:
                count, goes_to_one = random.choice([1, self._shape.burst_max]), random.random() < 0.5
                partition = random.randrange(self._workload.partition_count)
                for _ in range(count):
                    number += 1
                    if not goes_to_one:
                        partition = random.randrange(self._workload.partition_count)
                    value = f"{name}:{number}".ljust(self._shape.value_bytes, ".")
                    await self._send(producer, name, value, partition, pending)
                await asyncio.sleep(random.expovariate(1 / self._shape.pause_s))
                if len(pending) >= self._shape.pipeline_max:
                    await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                await asyncio.wait(pending)

    async def _send(
        self, producer: SimProducer, name: str, value: str, partition: int, pending: set[asyncio.Task[None]]
    ) -> None:
        place = partition_name((self._shape.topic, partition))
        operation = self._world.recorder.invoke(name, "send", partition=place, value=value)
        try:
            future = await producer.send(
                self._shape.topic, value.encode(), partition=partition, timestamp_ms=self._timestamp_ms()
            )
        except (BufferFull, *FAILURES) as error:
            operation.fail(error)
            return
        task = asyncio.get_running_loop().create_task(self._settle(operation, future))
        pending.add(task)
        task.add_done_callback(pending.discard)

    def _timestamp_ms(self) -> int | None:
        age_ms = self._shape.record_age_ms
        return time.time_ns() // 1_000_000 - age_ms if age_ms else None

    async def _settle(self, operation: Pending, future: Awaitable[RecordMetadata]) -> None:
        try:
            metadata = await future
        except FAILURES as error:
            settle_failed_send(operation, error)
        else:
            self._world.count(ACKNOWLEDGED)
            operation.ok(offset=metadata.offset)


class ReadingClient:
    """A consumer that reads every partition from the start, and sometimes seeks back."""

    def __init__(self, workload: RecordWorkload) -> None:
        self._world = workload.world
        self._shape = workload.shape

    async def run(self, name: str) -> None:
        """Read until the simulation ends."""
        await keep_trying(self._world, name, self._run)

    async def _run(self, name: str) -> None:
        random = Random(f"{name} {self._world.seed}")
        topic, count = self._shape.topic, self._shape.partition_count
        consumer = open_consumer(self._world, name, self._shape.consumer)
        async with consumer.assign([(topic, partition, "earliest") for partition in range(count)]):
            while not self._world.is_ending:
                if random.random() < 0.01:
                    partition = random.randrange(count)
                    place = partition_name((topic, partition))
                    self._world.recorder.invoke(name, "assign", partitions=[place]).ok()
                    consumer.seek(topic, partition, "earliest")
                await poll(self._world, name, consumer)


async def poll(world: World, name: str, consumer: SimConsumer, **asked: object) -> list[ConsumerRecord]:
    """Poll once and record it. Return no records after an error."""
    return (await try_to_poll(world, name, consumer, **asked))[0]


async def try_to_poll(
    world: World, name: str, consumer: SimConsumer, **asked: object
) -> tuple[list[ConsumerRecord], Exception | None]:
    """Poll once and record it. Return the records, or the error."""
    operation = world.recorder.invoke(name, "poll", **asked)
    try:
        records = await consumer.poll(1.0)
    except FAILURES as error:
        operation.unknown(error)
        await asyncio.sleep(TRY_AGAIN_S)
        return [], error
    operation.ok(records=[[partition_name(record[:2]), record.offset, _text(record.value)] for record in records])
    return records, None


async def _drain(world: World, topic: str, name: str) -> None:
    async with Cluster(world.bootstrap, client_id=name) as cluster:
        async with Reader(cluster, topic) as reader:
            starts, ends = await reader.find_offsets(EARLIEST), await reader.find_offsets(LATEST)
            places = [partition_name((topic, partition)) for partition in sorted(ends)]
            whole = world.recorder.invoke(name, "drain", partitions=places)
            left = {partition for partition, start in starts.items() if start < ends[partition]}
            reader.seek({partition: starts[partition] for partition in left})
            while left:
                operation = world.recorder.invoke(name, "poll")
                fetched = await anext(reader)
                operation.ok(records=fetched_records(fetched))
                if fetched.next_offset >= ends[fetched.partition]:
                    left.discard(fetched.partition)
            whole.ok()


def fetched_records(fetched: Fetched) -> list[list[object]]:
    """Return the records of a fetch in the form of a history."""
    place = partition_name((fetched.topic, fetched.partition))
    return [
        [place, record.offset, _text(record.value), header.partition_leader_epoch]
        for position, header in visible_batches(fetched.data, fetched.aborted)
        for record in read_records(fetched.data, position)
        if record.offset >= fetched.offset
    ]


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
