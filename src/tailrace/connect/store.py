"""The topics of a Connect service: one service writes them, in transactions, and replays what it has written.

A service takes the transactional id of its group first, which fences the service before it, and notes its generation.
The earlier service finds that record, or fails to write, and stops. So two services never run the same connectors for
long, and neither can overwrite what the other has decided.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tailrace.aio import Admin, Consumer, Producer
from tailrace.client.admin.core import NewTopic, ResourceType
from tailrace.client.backoff import Backoff
from tailrace.client.error import AuthenticationError, ClientError, ProducerFenced
from tailrace.client.topic_partition import TopicPartition
from tailrace.connect.core.record import Row, Store, worker_row
from tailrace.connect.core.state import State
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError

_log = logging.getLogger(__name__)

REPLICATION_FACTOR_MAX = 3
TRANSACTION_TIMEOUT_MS = 20_000
_POLL_S = 60.0
_RETRY_S = 1.0
_LOOK_S = 0.01
BROKER_ERRORS = (ClientError, ApiError, RemoteProtocolError, OSError)


class StoreError(Exception):
    """Topics that cannot hold the state of a Connect service. The message says what to do."""


class Replaced(Exception):
    """Another service has taken over the connectors of this one."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The topics of a Connect service, with the names that Kafka's own examples use."""

    configs: str = "connect-configs"
    statuses: str = "connect-status"
    offsets: str = "connect-offsets"

    def of(self, store: Store) -> str:
        """Return the topic that holds one kind of records."""
        return {Store.CONFIGS: self.configs, Store.STATUSES: self.statuses, Store.OFFSETS: self.offsets}[store]

    def store_of(self, topic: str) -> Store:
        """Return the kind of records in a topic."""
        return next(store for store in Store if self.of(store) == topic)


_PARTITION_COUNTS = {Store.CONFIGS: 1, Store.STATUSES: 5, Store.OFFSETS: 25}
"""Those of Kafka Connect. Topics that exist may have others, but configs are in one partition, in their order."""


class ConnectStore:
    """The state of a Connect service, kept up to date from its topics. Use it as an async context manager."""

    def __init__(
        self, client: Mapping[str, str], names: TopicNames, group_id: str, worker_id: str, *, timeout_s: float = 30.0
    ) -> None:
        self.state = State()
        self.generation = 0
        self.cluster_id = ""
        self._client = dict(client)
        self._names = names
        self._transactional_id = f"tailrace-connect-{group_id}-{names.configs}"
        self._worker_id = worker_id
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._partitions: list[TopicPartition] = []
        self._read: dict[TopicPartition, int] = {}
        self._moved = asyncio.Condition()
        self._writing = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._open_topics()
            self._consumer = Consumer(config={**self._client, "isolation.level": "read_committed"})
            self._consumer.assign([(*each, "earliest") for each in self._partitions])
            self._reading = asyncio.create_task(self._read_to_the_end())
            await self._catch_up()
            await self._take_over()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading and writing."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(*BROKER_ERRORS):
            if self._consumer is not None:
                await self._consumer.close()
        await self._give_up_producer()

    # --- topics

    async def _open_topics(self) -> None:
        """Find or create the topics, as soon as brokers are there; raises `StoreError` if they cannot be used."""
        backoff, failure_count = Backoff(100, 5_000), 0
        while True:
            try:
                async with Admin(config=self._client) as admin:
                    self.cluster_id = (await admin.describe_cluster()).cluster_id or ""
                    for store in Store:
                        await self._open_topic(admin, store)
                return
            except BROKER_ERRORS as error:
                is_final = isinstance(error, ApiError) and not error.code.retriable
                if is_final or isinstance(error, AuthenticationError):
                    raise StoreError(f"the topics of the Connect service cannot be read or created: {error}") from error
                if failure_count == 0:
                    _log.warning("the Connect service waits for the brokers: %s", error)
                failure_count += 1
            await asyncio.sleep(backoff.wait_s(failure_count))

    async def _open_topic(self, admin: Admin, store: Store) -> None:
        name = self._names.of(store)
        found = (await admin.describe_topics([name]))[name]
        if isinstance(found, ApiError):
            if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            count = _PARTITION_COUNTS[store]
            factor = min(REPLICATION_FACTOR_MAX, len((await admin.describe_cluster()).nodes))
            new = NewTopic(name, count, factor, {"cleanup.policy": "compact"})
            outcome = (await admin.create_topics([new]))[name]
            if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise outcome
            self._partitions += [TopicPartition(name, index) for index in range(count)]
            return
        if store is Store.CONFIGS and len(found.partitions) != 1:
            raise StoreError(f"topic {name} has {len(found.partitions)} partitions; configs need exactly one")
        configs = {each.name: each.value for each in await admin.describe_configs(ResourceType.TOPIC, name)}
        if "delete" in (configs.get("cleanup.policy") or "").split(","):
            raise StoreError(
                f"topic {name} has cleanup.policy {configs['cleanup.policy']}, which would delete connectors: "
                f"run `tailrace topic alter {name} --config cleanup.policy=compact`"
            )
        self._partitions += [TopicPartition(name, each.index) for each in found.partitions]

    async def ask_brokers(self) -> None:
        """Ask the leader of the topic of configs for its end; raises what a client raises if it does not answer."""
        if self._consumer is not None:
            await self._consumer.end_offsets([(self._names.configs, 0)])

    # --- reading

    async def watch(self) -> None:
        """Return never while this service is the newest one; raises `Replaced` once it is not."""
        while True:
            self._check_not_replaced()
            async with self._moved:
                await self._moved.wait()

    def _check_not_replaced(self) -> None:
        generation, worker_id = self.state.worker
        if self.generation and generation > self.generation:
            raise Replaced(f"the Connect service at {worker_id} has taken over the connectors of this one")

    async def _read_to_the_end(self) -> None:
        assert self._consumer is not None  # noqa: S101 - it is opened before
        while True:
            try:
                for record in await self._consumer.poll(_POLL_S):
                    self._replay(record.topic, record.partition, record.offset, record.key, record.value)
            except BROKER_ERRORS as error:
                _log.warning("reading the topics of the Connect service failed and goes on: %s", error)
                await asyncio.sleep(_RETRY_S)
            async with self._moved:
                self._moved.notify_all()

    def _replay(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        try:
            self.state.replay(self._names.store_of(topic), key or b"", value)
        except ValueError as error:
            _log.error("%s-%d offset %d is skipped: %s", topic, partition, offset, error)
        self._read[TopicPartition(topic, partition)] = offset + 1

    async def _catch_up(self) -> None:
        """Read what is in the topics now."""
        assert self._consumer is not None  # noqa: S101 - it is opened before
        async with asyncio.timeout(self._timeout_s):
            ends = await self._consumer.end_offsets(self._partitions)
            for (topic, partition), end in ends.items():
                while await self._consumer.position(topic, partition) < end:  # noqa: ASYNC110 - no event tells that
                    await asyncio.sleep(_LOOK_S)  # what ends a transaction moves the position, and is no record

    # --- writing

    async def _take_over(self) -> None:
        """Become the only writer, and tell the service before this one."""
        await self._open_producer()
        self.generation = self.state.generation + 1
        await self._append([worker_row(self._worker_id, self.generation)])

    async def _open_producer(self) -> None:
        await self._give_up_producer()
        producer = Producer(
            config={
                **self._client,
                "transactional.id": self._transactional_id,
                "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
                "linger.ms": "0",
            }
        )
        try:
            await producer.__aenter__()
            await producer.init_transactions()
            await self._catch_up()
            self._check_not_replaced()
        except BaseException:
            await producer.close(0)
            raise
        self._producer = producer

    async def _give_up_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(*BROKER_ERRORS):
                await producer.close(0)

    async def append(self, rows: Sequence[Row]) -> None:
        """Write records together or not at all, and wait until they are part of the state.

        Raises `Replaced` if another service has taken over, and `StoreError` if the brokers do not take them.
        """
        if not rows:
            return
        async with self._writing:
            self._check_not_replaced()
            try:
                if self._producer is None:  # after a failure, because it is not known what was written then
                    await self._catch_up()
                    self._check_not_replaced()
                    await self._open_producer()
                await self._append(rows)
            except ProducerFenced:
                await self._give_up_producer()
                raise Replaced("another Connect service has taken over the connectors of this one") from None
            except asyncio.CancelledError:  # a service that stops writes its last records with another producer
                await self._give_up_producer()
                raise
            except (*BROKER_ERRORS, TimeoutError) as error:
                await self._give_up_producer()
                cause = str(error) or f"the brokers did not answer within {self._timeout_s:g} s"
                raise StoreError(f"the topics of the Connect service cannot be written: {cause}") from error

    async def _append(self, rows: Sequence[Row]) -> None:
        producer = self._producer
        assert producer is not None  # noqa: S101 - the caller has opened it
        async with asyncio.timeout(self._timeout_s):
            async with producer.transaction():
                sent = []
                for row in rows:
                    key, value = row.encode()
                    sent.append(await producer.send(self._names.of(row.store), value, key))
            for each in sent:
                where = await each
                await self._wait_until_read(TopicPartition(where.topic, where.partition), where.offset)

    async def _wait_until_read(self, partition: TopicPartition, offset: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: self._read.get(partition, 0) > offset)
