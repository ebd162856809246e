"""Clients of a compacted topic and of one with retention, whose logs brokers shorten several times a second."""

import asyncio
from collections.abc import Awaitable
from random import Random

import tailrace.aio
from tailrace.client.admin.core import NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.error import BufferFull
from tailrace.client.offset import EARLIEST, LATEST, MAX_TIMESTAMP
from tailrace.client.produce.delivery import RecordMetadata
from tailrace.client.setting import SettingValue
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError
from tailrace.sim.care.lookup import look_up
from tailrace.sim.care.policy import policy_name
from tailrace.sim.care.scanner import Scanner
from tailrace.sim.care.shape import COMPACTED, RETAINED, CareShape
from tailrace.sim.determinism import EPOCH_S
from tailrace.sim.history import Pending
from tailrace.sim.workload import FAILURES, TRY_AGAIN_S, keep_trying
from tailrace.sim.world import Program, World

_KEYS_AT_A_TIME = 4
_RECORDS_PER_KEY = 12
_TOMBSTONE_SHARE = 0.15
_PIPELINE_MAX = 20
_JITTER_MS = 1_500
_PUTS_MAX = 250  # of one life, so that the final scans stay short
_SCAN_PAUSE_S = 0.6
_SETTLE_S = 0.5
_MANY_BYTES = 65_536
_FINAL_LOOKUPS = 3
_POLICIES = ("compact", "delete", "compact,delete")


class CareWorkload:
    """A writer of both topics, a reader of both from their starts, a client that asks by time, an administrator."""

    def __init__(self, world: World, shape: CareShape, producer: dict[str, SettingValue]) -> None:
        self.world = world
        self.shape = shape
        self._producer = producer
        self._targets = [
            TopicPartition(topic, partition)
            for topic in (COMPACTED, RETAINED)
            for partition in range(shape.partition_count)
        ]
        self._sent: set[tuple[str, str | None, int]] = set()

    async def prepare(self) -> None:
        for topic, configs in ((COMPACTED, self.shape.compacted), (RETAINED, self.shape.retained)):
            self.world.recorder.invoke("-", "topic", topic=topic, configs=dict(configs)).ok()
            await self._make(topic, dict(configs))

    async def _make(self, topic: str, configs: dict[str, str]) -> None:
        new = NewTopic(topic, self.shape.partition_count, 3, configs)
        while True:
            try:
                async with tailrace.aio.Admin(self.world.bootstrap, request_timeout_ms=5_000) as admin:
                    answer = (await admin.create_topics([new]))[topic]
                    if not isinstance(answer, ApiError) or answer.code.name == "TOPIC_ALREADY_EXISTS":
                        return
            except FAILURES:
                pass
            await asyncio.sleep(TRY_AGAIN_S)

    def programs(self) -> dict[str, Program]:
        lives: dict[str, Program] = {"writer": self._write, "scanner": self._scan, "clerk": self._attend}
        if self.shape.policies_every_s:
            lives["reformer"] = self._reform
        return {name: self._keep(life) for name, life in lives.items()}

    def _keep(self, life: Program) -> Program:
        return lambda name: keep_trying(self.world, name, life)

    # --- the writer

    async def _write(self, name: str) -> None:
        """Write numbered values; a key belongs to one life of one writer, so that the order of its values is known."""
        random = Random(f"{name} {self.world.seed}")
        pending: set[asyncio.Task[None]] = set()
        async with tailrace.aio.Producer(self.world.bootstrap, config=self._producer) as producer:
            number = 0
            while not self.world.is_ending and number < _PUTS_MAX:
                for _ in range(random.choice([1, 2, 8])):
                    number += 1
                    await self._put(producer, name, number, random, pending)
                await asyncio.sleep(random.expovariate(1 / self.shape.pause_s))
                if len(pending) >= _PIPELINE_MAX:
                    await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                await asyncio.wait(pending)

    async def _put(
        self,
        producer: tailrace.aio.Producer,
        name: str,
        number: int,
        random: Random,
        pending: set[asyncio.Task[None]],
    ) -> None:
        key_number = number // _RECORDS_PER_KEY + random.randrange(_KEYS_AT_A_TIME)
        key = f"{name}:{key_number}"
        value = None if random.random() < _TOMBSTONE_SHARE else f"{name}:{number}".ljust(random.choice([0, 60]), ".")
        topic = random.choice([COMPACTED, RETAINED])
        if topic == RETAINED:
            value = f"{name}:{number}"
        target = TopicPartition(topic, key_number % self.shape.partition_count)
        timestamp_ms = self._new_timestamp(key, value, random)
        operation = self.world.recorder.invoke(
            name, "put", partition=str(target), key=key, value=value, timestamp_ms=timestamp_ms
        )
        data = None if value is None else value.encode()
        try:
            future = await producer.send(
                topic, data, key.encode(), partition=target.partition, timestamp_ms=timestamp_ms
            )
        except (BufferFull, *FAILURES) as error:
            operation.fail(error)
            return
        task = asyncio.get_running_loop().create_task(_settle(operation, future))
        pending.add(task)
        task.add_done_callback(pending.discard)

    def _new_timestamp(self, key: str, value: str | None, random: Random) -> int:
        """Return a time around now that no other record with this key and value has.

        Values are numbered, but tombstones of a key differ by their timestamps alone.
        """
        timestamp_ms = self._now_ms() + random.randint(-_JITTER_MS, _JITTER_MS)
        while (key, value, timestamp_ms) in self._sent:
            timestamp_ms += 1
        self._sent.add((key, value, timestamp_ms))
        return timestamp_ms

    def _now_ms(self) -> int:
        return int((EPOCH_S + self.world.loop.time()) * 1000)

    # --- the reader

    async def _scan(self, name: str) -> None:
        random = Random(f"{name} {self.world.seed}")
        async with self._cluster(name) as cluster:
            scanner = self._scanner(cluster, name, random, partition_bytes_max=random.choice([200, _MANY_BYTES]))
            while not self.world.is_ending:
                await scanner.scan(self._targets)
                await asyncio.sleep(random.uniform(0, _SCAN_PAUSE_S))

    def _cluster(self, name: str) -> Cluster:
        return Cluster(self.world.bootstrap, client_id=name, request_timeout_ms=1_000, metadata_max_age_ms=2_000)

    def _scanner(self, cluster: Cluster, name: str, random: Random, *, partition_bytes_max: int) -> Scanner:
        rack = self.shape.rack_of(random)
        return Scanner(self.world, cluster, name, rack=rack, partition_bytes_max=partition_bytes_max)

    # --- questions by time, and DeleteRecords

    async def _attend(self, name: str) -> None:
        random = Random(f"{name} {self.world.seed}")
        async with (
            self._cluster(name) as cluster,
            tailrace.aio.Admin(self.world.bootstrap, request_timeout_ms=2_000) as admin,
        ):
            while not self.world.is_ending:
                await asyncio.sleep(random.expovariate(1 / 0.1))
                target = random.choice(self._targets)
                try:
                    if self.shape.deletes_records and target.topic == RETAINED and random.random() < 0.3:
                        await self._delete(cluster, admin, name, target, random)
                    else:
                        asked = random.choice([EARLIEST, LATEST, MAX_TIMESTAMP, 0, 0, 0, 0])
                        asked = asked or self._now_ms() - random.randint(0, 4_000)
                        await look_up(self.world, cluster, name, target, asked)
                except FAILURES as error:
                    self.world.note(f"{name} failed: {error}")

    async def _delete(
        self, cluster: Cluster, admin: tailrace.aio.Admin, name: str, target: TopicPartition, random: Random
    ) -> None:
        start = await look_up(self.world, cluster, name, target, EARLIEST)
        end = await look_up(self.world, cluster, name, target, LATEST)
        offset = random.randint(min(start.offset, end.offset), end.offset)
        operation = self.world.recorder.invoke(name, "delete-records", partition=str(target), offset=offset)
        try:
            outcome = (await admin.delete_records({target: offset}))[target]
        except FAILURES as error:
            operation.unknown(error)
            raise
        if isinstance(outcome, ApiError):
            operation.unknown(outcome)
            return
        self.world.count("care records deleted")
        operation.ok(low_watermark=outcome)

    # --- changes of the policies

    async def _reform(self, name: str) -> None:
        """Change the cleanup.policy of a topic, again and again."""
        random = Random(f"{name} {self.world.seed}")
        async with tailrace.aio.Admin(self.world.bootstrap, request_timeout_ms=2_000) as admin:
            while not self.world.is_ending:
                await asyncio.sleep(random.expovariate(1 / self.shape.policies_every_s))
                topic, configs = random.choice([COMPACTED, RETAINED]), {"cleanup.policy": random.choice(_POLICIES)}
                operation = self.world.recorder.invoke(name, "alter", topic=topic, configs=configs)
                try:
                    await admin.alter_configs(ResourceType.TOPIC, topic, configs)
                except FAILURES as error:
                    operation.unknown(error)
                    continue
                self.world.count("care policies changed")
                operation.ok()

    def _look_at_policies(self) -> None:
        """Record the policy that each broker follows."""
        for broker in self.world.brokers:
            for partition in broker.replicas():
                if partition.topic in self.shape.compacted_topics:
                    look = self.world.recorder.invoke("-", "describe", topic=partition.topic, broker=broker.broker_id)
                    look.ok(configs={"cleanup.policy": policy_name(partition.log.config)})

    # --- the end

    async def drain(self) -> None:
        """Read everything twice, and ask by time in between, when all clients have ended."""
        await asyncio.sleep(_SETTLE_S)
        await keep_trying(self.world, "care-drain", self._drain)
        self._look_at_policies()

    async def _drain(self, name: str) -> None:
        random = Random(f"{name} {self.world.seed}")
        async with self._cluster(name) as cluster:
            scanner = self._scanner(cluster, name, random, partition_bytes_max=_MANY_BYTES)
            await self._scan_to_the_end(scanner)
            for target in self._targets:
                for asked in (LATEST, MAX_TIMESTAMP, *self._some_times(random)):
                    await look_up(self.world, cluster, name, target, asked, is_final=True)
            await self._scan_to_the_end(scanner)

    async def _scan_to_the_end(self, scanner: Scanner) -> None:
        while True:
            if await scanner.scan(self._targets, is_final=True):
                return
            await asyncio.sleep(TRY_AGAIN_S)

    def _some_times(self, random: Random) -> list[int]:
        """Return times around some records: that of one and the millisecond after it."""
        puts = [event for event in self.world.recorder.events if event["kind"] == "put" and "timestamp_ms" in event]
        chosen = random.sample(puts, min(len(puts), _FINAL_LOOKUPS))
        return [event["timestamp_ms"] + random.randint(0, 1) for event in chosen]


async def _settle(operation: Pending, future: Awaitable[RecordMetadata]) -> None:
    try:
        metadata = await future
    except FAILURES as error:
        operation.unknown(error)  # an earlier attempt may have been appended
    else:
        operation.ok(offset=metadata.offset)
