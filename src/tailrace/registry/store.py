"""The topic `_schemas`: every registry process reads it, and the leader writes it.

The leader writes the records of a request in one transaction, under a transactional id that belongs to the group of
registries. A process that becomes the leader takes the id first, which fences the leader before it: from then on
nothing can be added to the topic that the new leader has not read. So no id is given out twice, even if the old leader
was only slow. Registries read committed records only.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from tailrace.aio import Producer
from tailrace.base.schema_limits import REGISTRY_REPLAY_TURN_BYTES_MAX
from tailrace.client.admin.core import Admin, NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.error import AuthenticationError, ClientError
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.reader import Reader
from tailrace.client.fetch.request import Fetched, FetchOptions
from tailrace.client.offset import EARLIEST, LATEST, find_offsets
from tailrace.client.produce.core import open_cluster
from tailrace.client.setting import ClientSettings
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.records.error import RecordError
from tailrace.registry.core.error import Code, RegistryError
from tailrace.registry.core.record import Change, decode, encode
from tailrace.registry.core.state import State

_log = logging.getLogger(__name__)

REPLICATION_FACTOR_MAX = 3
TRANSACTION_TIMEOUT_MS = 20_000
MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default limit for a batch, which bounds the size of a schema."""
_BATCH_OVERHEAD_BYTES = 1_000
_WAITING_LOG_INTERVAL_S = 30.0

Row = tuple[bytes, bytes | None]
"""The key and the value of a record."""


class StoreError(Exception):
    """A topic that cannot hold schemas. The message says what to do."""


class SchemaStore:
    """The state of the registry, kept up to date from the topic. Use it as an async context manager."""

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str,
        group_id: str,
        client: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """`client` has other configs of Kafka clients by name, such as those of TLS and SASL."""
        self.state = State()
        self.topic = topic
        self._bootstrap = bootstrap
        self._transactional_id = f"tailrace-registry-{group_id}-{topic}"
        self._timeout_s = timeout_s
        self._client = {"client.id": "tailrace-registry", **(client or {})}
        self._cluster = open_cluster(ClientSettings(bootstrap, self._client, {}))
        self._producer: Producer | None = None
        self._term = 0
        self._claim = 0
        self._position = 0
        self._moved = asyncio.Condition()
        self._reading: asyncio.Task[None] | None = None

    @property
    def cluster(self) -> Cluster:
        """The connections to the brokers."""
        return self._cluster

    @property
    def position(self) -> int:
        """The offset up to which the topic has been read."""
        return self._position

    @property
    def is_reading(self) -> bool:
        """Whether the topic is being read."""
        return self._reading is not None and not self._reading.done()

    @property
    def is_writer(self) -> bool:
        """Whether this process has taken the transactional id, and has not lost it as far as it knows."""
        return self._producer is not None

    @property
    def term(self) -> int:
        """How often this process has taken the topic over. Others may have written between two of these times."""
        return self._term

    async def __aenter__(self) -> Self:
        try:
            await self._wait_for_topic()
            self._reading = asyncio.create_task(self._read_to_the_end())
            await self.catch_up(timeout_s=None)
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
        await self.give_up_writing()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._cluster.close()

    # --- the topic

    async def _wait_for_topic(self) -> None:
        """Connect, and find or create the topic, as soon as brokers are there; raises `StoreError` if that fails."""
        failure_count = 0
        logged_at_s = -math.inf
        while True:
            try:
                await self._cluster.connect()
                await self._ensure_topic()
            except (ClientError, ApiError, RemoteProtocolError, OSError) as error:
                is_final = isinstance(error, ApiError) and not error.code.retriable
                if is_final or isinstance(error, AuthenticationError):
                    raise StoreError(f"topic {self.topic} cannot be read or created: {error}") from error
                failure_count += 1
                if time.monotonic() - logged_at_s >= _WAITING_LOG_INTERVAL_S:
                    logged_at_s = time.monotonic()
                    _log.warning("the registry waits for the brokers at %s: %s", self._bootstrap, error)
            else:
                if failure_count:
                    _log.info("the registry has reached the brokers at %s", self._bootstrap)
                return
            await asyncio.sleep(self._cluster.backoff.wait_s(failure_count))

    async def _ensure_topic(self) -> None:
        admin = Admin(self._cluster)
        found = (await admin.describe_topics([self.topic]))[self.topic]
        if isinstance(found, ApiError):
            if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            await self._create_topic(admin)
            return
        if len(found.partitions) != 1:
            raise StoreError(
                f"topic {self.topic} has {len(found.partitions)} partitions; the registry needs exactly one"
            )
        configs = {each.name: each.value for each in await admin.describe_configs(ResourceType.TOPIC, self.topic)}
        if "delete" in (configs.get("cleanup.policy") or "").split(","):
            raise StoreError(
                f"topic {self.topic} has cleanup.policy {configs['cleanup.policy']}, which would delete schemas: "
                f"run `tailrace topic alter {self.topic} --config cleanup.policy=compact`"
            )

    async def _create_topic(self, admin: Admin) -> None:
        view = await admin.describe_cluster()
        factor = min(REPLICATION_FACTOR_MAX, len(view.nodes))
        new = NewTopic(self.topic, 1, factor, {"cleanup.policy": "compact"})
        outcome = (await admin.create_topics([new]))[self.topic]
        if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome

    # --- reading

    async def watch(self) -> None:
        """Return never while the topic is read; raises the error that has ended that."""
        if self._reading is not None:
            await asyncio.shield(self._reading)

    async def _read_to_the_end(self) -> None:
        """Read for ever, and wake those that wait if a bug ends it."""
        try:
            await self._read()
        finally:
            async with self._moved:
                self._moved.notify_all()

    async def _read(self) -> None:
        options = FetchOptions(isolation=Isolation.READ_COMMITTED)
        while True:
            try:
                async with Reader(self._cluster, self.topic, options=options, reset=EARLIEST) as reader:
                    await (reader.seek_to_time(EARLIEST) if self._position == 0 else _seek(reader, self._position))
                    async for fetched in reader:
                        await self._replay(fetched)
            except (ClientError, ApiError, RecordError, RemoteProtocolError, OSError) as error:
                _log.warning("reading topic %s stopped and will go on: %s", self.topic, error)
                await asyncio.sleep(1.0)

    async def _replay(self, fetched: Fetched) -> None:
        size_bytes = 0
        for record in fetched.records():
            size_bytes += len(record.value or b"")
            if size_bytes > REGISTRY_REPLAY_TURN_BYTES_MAX:
                size_bytes = 0
                await asyncio.sleep(0)
            try:
                if record.key is None:
                    raise ValueError("a record without a key")
                value = None if record.value is None else bytes(record.value)
                change = decode(bytes(record.key), value, record.timestamp)
            except ValueError as error:
                _log.error("%s-0 offset %d is skipped: %s", self.topic, record.offset, error)
                continue
            self.state.replay(change)
        async with self._moved:
            self._position = fetched.next_offset
            self._moved.notify_all()

    async def catch_up(self, timeout_s: float | None = 0.0) -> None:
        """Wait until everything that is in the topic now has been read; by default for the store's own time-out."""
        end = await self._cluster.retry(self._find_end, timeout_ms=self._timeout_s * 1000)
        await self._wait_for(end, self._timeout_s if timeout_s == 0.0 else timeout_s)

    async def _find_end(self) -> int:
        return (await find_offsets(self._cluster, self.topic, {0: LATEST}, Isolation.READ_COMMITTED))[0]

    async def _wait_for(self, offset: int, timeout_s: float | None) -> None:
        async with asyncio.timeout(timeout_s), self._moved:
            await self._moved.wait_for(lambda: self._position >= offset or not self.is_reading)
        if self._position < offset:
            raise StoreError(f"topic {self.topic} is not read any more; the log says why")

    # --- writing

    async def take_over(self) -> None:
        """Become the only writer of the topic, and read all that earlier writers have committed.

        Raises `RegistryError` if this process is told to give up writing meanwhile.
        """
        await self.give_up_writing()
        claim = self._claim
        producer = Producer(
            self._bootstrap,
            config=self._client,
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=0,
            max_request_size=MAX_MESSAGE_BYTES,
        )
        try:
            await producer.__aenter__()
            await producer.init_transactions()
            await self.catch_up()
            if claim != self._claim:
                raise RegistryError(Code.UNKNOWN_LEADER, "Another registry was elected while this one took over")
        except BaseException:
            await producer.close(0)
            raise
        self._producer = producer
        self._term += 1

    async def give_up_writing(self) -> None:
        """Let another process write the topic. A transaction that is open is left to it, which aborts it."""
        self._claim += 1
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(ClientError, ApiError, RemoteProtocolError, OSError):
                await producer.close(0)

    async def append(self, rows: Sequence[Row]) -> None:
        """Write records together or not at all, and wait until they are part of the state.

        Raises `RegistryError`. After a failure the writer must take over again: it does not know what was written.
        """
        if not rows:
            return
        producer = self._producer
        if producer is None:
            raise RegistryError(Code.UNKNOWN_LEADER, "This registry is not the leader any more")
        try:
            async with asyncio.timeout(self._timeout_s):
                async with producer.transaction():
                    sent = [await producer.send(self.topic, value, key, partition=0) for key, value in rows]
                end = (await sent[-1]).offset + 1
                await self._wait_for(end, None)
        except BaseException as error:
            # It is not known what was written, so this producer must not write again.
            if self._producer is producer:
                self._producer = None
            await producer.close(0)
            if not isinstance(error, Exception):
                raise
            if isinstance(error, TimeoutError):
                message = f"Writing to {self.topic} took more than {self._timeout_s:g} s"
                raise RegistryError(Code.TIMED_OUT, message) from error
            raise RegistryError(Code.STORE_FAILED, f"Writing to {self.topic} failed: {error}") from error


async def _seek(reader: Reader, offset: int) -> None:
    reader.seek({0: offset})


def encode_rows(changes: Sequence[Change]) -> list[Row]:
    """Return the keys and values of records; raises `RegistryError` if one is larger than a broker takes."""
    rows = [encode(change) for change in changes]
    size = max((len(key) + len(value or b"") for key, value in rows), default=0) + _BATCH_OVERHEAD_BYTES
    if size > MAX_MESSAGE_BYTES:
        raise RegistryError(
            Code.SCHEMA_TOO_LARGE,
            f"The schema is too large: its record has {size} bytes of at most {MAX_MESSAGE_BYTES}",
        )
    return rows
