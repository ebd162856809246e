"""Transactional clients: tellers, which write new values, and copiers, which write what they read.

Several clients have the same transactional id. The latest one fences the others, which find out during any operation,
possibly after a long pause.

Now and then the network holds the last record of a teller for longer than the teller waits for an answer. Most of these
tellers abort. If their transactions are of the first generation, the record arrives with the epoch of the next one, or
after everything, and the leader has to ask the coordinator whether there is a transaction (KIP-890).
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tailrace.client.error import CommitFailed, TransactionFailed
from tailrace.client.fetch.record import ConsumerRecord
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.api_key import ApiKey
from tailrace.sim.face import SimConsumer, open_consumer
from tailrace.sim.network import WORLD
from tailrace.sim.process import PROCESS
from tailrace.sim.record_workload import poll
from tailrace.sim.transaction.producer import RecordedProducer
from tailrace.sim.workload import keep_trying, partition_name
from tailrace.sim.world import World

GROUP = "copiers"
_PASSING = (TransactionFailed, CommitFailed)
_ABORT_SHARES = (0.15, 0.15, 0.5)
_DAWDLE_SHARE = 0.08
_DAWDLE_S = (0.2, 4.0)
_LIFE_SHARE = 0.05
_REST_S = (0.2, 2.0)
_VALUES_MAX = 4
_PEEK_SHARE = 0.1
_LATE_SHARE = 0.15  # of transactions, the last record of which is held
_LATE_ABORT_SHARE = 0.7
_LATE_S = (0.05, 2.0)  # after the teller has given up the request
_LATE_PATIENCE_S_MAX = 5.0
_CAUGHT_S = 1.0


@dataclass(frozen=True, slots=True)
class TransactionShape:
    """The parameters of the clients of one seed."""

    source: str
    target: str
    partition_count: int
    replication_factor: int
    producer: dict[str, SettingValue]
    member: dict[str, SettingValue]
    consumer: dict[str, SettingValue]
    pause_s: float
    transaction_timeout_ms: int


class TransactionalClient:
    """The common part of tellers and copiers: several runs, each with its own producer, and pauses between them."""

    def __init__(self, world: World, shape: TransactionShape, transactional_id: str) -> None:
        self.world = world
        self.shape = shape
        self.transactional_id = transactional_id
        self.abort_share = Random(f"abort {transactional_id} {world.seed}").choice(_ABORT_SHARES)

    async def run(self, name: str) -> None:
        """Write until the simulation ends."""
        await keep_trying(self.world, name, self._run)

    async def _run(self, name: str) -> None:
        random = Random(f"{name} {self.world.seed}")
        number = 0
        while not self.world.is_ending:
            number += 1
            await self.live(f"{name}-{number}", random)
            if not self.world.is_ending:
                await asyncio.sleep(random.uniform(*_REST_S))

    async def live(self, name: str, random: Random) -> None:
        """Run once under one name."""
        raise NotImplementedError

    def producer(self, name: str) -> RecordedProducer:
        """Return a new producer."""
        settings = {**self.shape.producer, "transaction.timeout.ms": self.shape.transaction_timeout_ms}
        return RecordedProducer(self.world, name, self.transactional_id, settings)

    async def pause(self, random: Random) -> None:
        """Pause briefly, or so long that another client takes over."""
        if random.random() < _DAWDLE_SHARE:
            await asyncio.sleep(random.uniform(*_DAWDLE_S))
        elif random.random() < 0.5:
            await asyncio.sleep(random.expovariate(1 / self.shape.pause_s))

    def goes_on(self, random: Random) -> bool:
        return not self.world.is_ending and random.random() >= _LIFE_SHARE


class Teller(TransactionalClient):
    """Writes a few values in each transaction, and sometimes checks whether it can read them."""

    async def live(self, name: str, random: Random) -> None:
        places = [(self.shape.target, partition, "earliest") for partition in range(self.shape.partition_count)]
        consumer = open_consumer(self.world, name, self.shape.consumer)
        late = Random(f"late {name} {self.world.seed}")
        async with self.producer(name) as producer, consumer.assign(places):
            await producer.init()
            while self.goes_on(random):
                try:
                    await self._tell(producer, consumer, name, random, late)
                except TransactionFailed:
                    await producer.abort()
                await asyncio.sleep(random.expovariate(1 / self.shape.pause_s))

    async def _tell(
        self, producer: RecordedProducer, consumer: SimConsumer, name: str, random: Random, late: Random
    ) -> None:
        transaction = await producer.begin()
        for number in range(random.randint(1, _VALUES_MAX)):
            partition = random.randrange(self.shape.partition_count)
            await producer.send(self.shape.target, partition, f"{transaction}.{number}")
            await self.pause(random)
        if random.random() < _PEEK_SHARE:
            await poll(self.world, name, consumer)
        is_aborted = random.random() < self.abort_share
        if late.random() < _LATE_SHARE and not self.world.is_healed and self._patience_s <= _LATE_PATIENCE_S_MAX:
            await self._send_late(producer, f"{transaction}.late", late)
            is_aborted |= late.random() < _LATE_ABORT_SHARE
        await (producer.abort if is_aborted else producer.commit)()

    @property
    def _patience_s(self) -> float:
        """The time after which a producer gives up a request."""
        return float(str(self.shape.producer["request.timeout.ms"])) / 1000

    async def _send_late(self, producer: RecordedProducer, value: str, random: Random) -> None:
        """Send a value that the network holds for longer than the producer waits for an answer."""
        process = PROCESS.get()
        host = WORLD if process is None else process.host
        held_s = self._patience_s + random.uniform(*_LATE_S)
        caught = self.world.loop.network.hold_next(host, ApiKey.PRODUCE, held_s)
        await producer.send(self.shape.target, random.randrange(self.shape.partition_count), value)
        with suppress(TimeoutError):
            await asyncio.wait_for(caught, _CAUGHT_S)
            self.world.count("hold produce")


class Copier(TransactionalClient):
    """Writes a value for each record that it reads as a group member, and commits both together."""

    async def live(self, name: str, random: Random) -> None:
        consumer = open_consumer(self.world, name, {**self.shape.member, "group.id": GROUP})

        def moved(partitions: list[TopicPartition]) -> None:
            self._move(name, partitions)

        async with self.producer(name) as producer:
            await producer.init()
            async with consumer.subscribe(self.shape.source, on_assigned=moved, on_revoked=moved, on_lost=moved):
                while self.goes_on(random):
                    records = await poll(self.world, name, consumer)
                    if records:
                        await self._copy(producer, consumer, records, random, name)

    async def _copy(
        self,
        producer: RecordedProducer,
        consumer: SimConsumer,
        records: list[ConsumerRecord],
        random: Random,
        name: str,
    ) -> None:
        try:
            await self._transact(producer, consumer, records, random)
            if random.random() >= self.abort_share:
                await producer.commit()
                return
        except _PASSING:
            pass
        await producer.abort()
        await self._rewind(consumer, name)

    async def _transact(
        self, producer: RecordedProducer, consumer: SimConsumer, records: list[ConsumerRecord], random: Random
    ) -> None:
        transaction = await producer.begin()
        for record in records:
            source = f"{partition_name(record[:2])}:{record.offset}"
            partition = record.partition % self.shape.partition_count
            await producer.send(self.shape.target, partition, f"{transaction} {source}", source=source)
        await self.pause(random)
        offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        await producer.send_offsets(consumer, GROUP, offsets)
        await self.pause(random)

    async def _rewind(self, consumer: SimConsumer, name: str) -> None:
        """Seek back to the committed offsets."""
        found = await consumer.committed(consumer.assignment())
        self._move(name, list(found))
        for target, committed in found.items():
            consumer.seek(*target, "earliest" if committed is None else committed.offset)

    def _move(self, name: str, partitions: list[TopicPartition]) -> None:
        self.world.recorder.invoke(name, "assign", partitions=[partition_name(each) for each in partitions]).ok()
