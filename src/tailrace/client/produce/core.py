"""The core of both producers: everything but waiting.

A record is taken in three steps: find its topic, prepare it, append it to the outbox. Only the first may
need a request and only the last may need memory; the faces differ in how they wait for these.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tailrace.base import chance
from tailrace.base.sentinel import INT64_MAX
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, BufferFull, RecordTooLarge, RequestTimeout, TransactionStateError
from tailrace.client.metadata import Topic
from tailrace.client.produce.delivery import Receipt
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import OutboxOptions
from tailrace.client.produce.row import HeaderPairs, Row, row_size_bytes
from tailrace.client.produce.sender import Sender, SenderOptions
from tailrace.client.setting import ProducerSettings
from tailrace.client.transaction.scope import abandon
from tailrace.client.transaction.state import PreparedTransaction
from tailrace.client.transaction.transaction import Transactions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.murmur2 import partition_for_key

BytesLike: TypeAlias = bytes | bytearray | memoryview
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, Sequence[int]], int]
"""Topic, key, value and the partitions there are, to the partition of a record."""

NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


class ProducerCore:
    """An outbox and its sender, the choice of partitions, and the producer's transactions."""

    def __init__(
        self,
        settings: ProducerSettings,
        new_receipt: Callable[[], Receipt],
        partitioner: Partitioner | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """Use a connected cluster of the caller, or else one of its own."""
        self.settings = settings
        self.cluster = cluster or open_cluster(settings)
        self.outbox = Outbox(_outbox_options(settings), new_receipt)
        self.transactions = _transactions(settings, self.cluster, self.outbox)
        self.sender = Sender(self.cluster, self.outbox, _sender_options(settings), self.transactions)
        self.is_started = False
        self._owns_cluster = cluster is None
        self._partitioner = partitioner
        self._ignores_keys = settings.partitioner_ignore_keys
        self._sticky: dict[str, tuple[Topic, StickyPartition, Sequence[int]]] = {}

    # --- on the loop

    async def start(self) -> None:
        """Connect to the cluster, or raise `BootstrapError` at once."""
        if not self.is_started:
            if self._owns_cluster:
                await self.cluster.connect()
            if not self.is_started:  # another task may have started it meanwhile
                self.is_started = True
                self.sender.start()

    async def find_topic(self, name: str) -> Topic:
        """Return the topic, which the broker may create; raises if it is not known within max.block.ms."""
        await self.start()
        timeout_ms = self.settings.max_block_ms
        try:
            return await self.cluster.topic(name, allow_auto_create=True, timeout_ms=timeout_ms)
        except ApiError as error:
            raise ApiError(error.code, f"topic {name} was not found within max_block_ms ({timeout_ms})") from None
        except (BrokerUnavailable, RequestTimeout):
            stale = self.cluster.view.topics.get(name)
            if stale is None or not stale.partitions:
                raise
            return stale  # old metadata is most likely still right, and the leaders will reject what is wrong

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        await self.start()
        await self.transactional().begin()

    async def init_transactions(self, *, keep_prepared: bool) -> PreparedTransaction | None:
        """Take the transactional id, and fence its other producers."""
        await self.start()
        return await self.transactional().init(keep_prepared=keep_prepared)

    async def abandon_transaction(self, timeout_s: float | None) -> None:
        """Abort an open transaction, if that is possible in time."""
        if self.transactions is not None:
            await abandon(self.transactions, timeout_s)

    def transactional(self) -> Transactions:
        """Return the producer's transactions; raises if it has no transactional id."""
        if self.transactions is None:
            raise TransactionStateError("this producer has no transactions; set transactional_id")
        return self.transactions

    async def close(self) -> None:
        """Drop records that are not acknowledged, and close every connection."""
        await self.sender.close()
        if self._owns_cluster:
            await self.cluster.close()

    # --- from any thread

    def known_topic(self, name: str) -> Topic | None:
        """Return the topic if its metadata is known; the sender refreshes it."""
        topic = self.cluster.view.topics.get(name)
        return topic if topic is not None and topic.partitions else None

    def prepare(
        self,
        topic: Topic,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: HeaderPairs,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> tuple[int, Row, int]:
        """Return the partition, the row and the estimated size of a record; raises if the record is invalid."""
        if type(key) is not bytes and key is not None:
            key = _to_bytes("key", key)
        if type(value) is not bytes and value is not None:
            value = _to_bytes("value", value)
        pairs = _read_headers(headers) if headers else NO_HEADERS
        size_bytes = row_size_bytes(key, value, pairs)
        if size_bytes > self.settings.max_request_size:
            raise RecordTooLarge(
                f"a record for {topic.name} takes {size_bytes} bytes, more than max_request_size "
                f"({self.settings.max_request_size})"
            )
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif not 0 <= timestamp_ms <= INT64_MAX:
            raise ValueError(f"{timestamp_ms} is not a time in milliseconds since 1970")
        if partition is None:
            partition = self._choose(topic, key, value, size_bytes)
        else:
            check_partition(topic, partition)
        return partition, (timestamp_ms, key, value, pairs), size_bytes

    def _choose(self, topic: Topic, key: bytes | None, value: bytes | None, size_bytes: int) -> int:
        if self._partitioner is not None:
            partition = self._partitioner(topic.name, key, value, range(len(topic.partitions)))
            check_partition(topic, partition)
            return partition
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, len(topic.partitions))
        return self.stick(topic, size_bytes)

    def stick(self, topic: Topic, size_bytes: int) -> int:
        """Return the partition for records without keys of this size."""
        known = self._sticky.get(topic.name)
        if known is None or known[0] is not topic:
            sticky = StickyPartition(self.settings.batch_size) if known is None else known[1]
            known = self._sticky[topic.name] = (topic, sticky, topic.led_partitions or range(len(topic.partitions)))
        return known[1].choose(known[2], size_bytes)

    @property
    def chooses_by_key(self) -> bool:
        """Whether partitions are chosen by Kafka's hash of the key."""
        return self._partitioner is None and not self._ignores_keys

    @property
    def partitioner(self) -> Partitioner | None:
        """The partitioner of the user."""
        return self._partitioner

    def no_room(self, waited_ms: float) -> BufferFull:
        """Return the error for a record that got no memory."""
        memory = f"buffer_memory ({self.settings.buffer_memory})"
        return BufferFull(f"{memory} stayed full of unacknowledged records for {waited_ms:g} ms (max_block_ms)")


class StickyPartition:
    """The current partition of a topic for records without a key, chosen as in Kafka's Java producer.

    They go to one partition for about a batch and then to another (KIP-480, KIP-794), because few full batches
    cost less than many small ones.
    """

    def __init__(self, stay_bytes: int, choose: Callable[[Sequence[int]], int] = chance.choice) -> None:
        self._stay_bytes = stay_bytes
        self._choose = choose
        self._current = -1
        self._written_bytes = 0

    def choose(self, partitions: Sequence[int], size_bytes: int) -> int:
        """Return the partition for a record of this size, out of those that have a leader."""
        if self._written_bytes >= self._stay_bytes or self._current not in partitions:
            others = [partition for partition in partitions if partition != self._current]
            self._current = self._choose(others or partitions)
            self._written_bytes = 0
        self._written_bytes += size_bytes
        return self._current


def open_cluster(settings: Any) -> Cluster:
    """Return a cluster with the settings that all clients share."""
    return Cluster(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        request_timeout_ms=settings.request_timeout_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        metadata_max_age_ms=settings.metadata_max_age_ms,
        security=settings.make_security(),
    )


def check_partition(topic: Topic, partition: int) -> None:
    """Raise `ApiError` if the topic does not have the partition."""
    if not 0 <= partition < len(topic.partitions):
        message = f"topic {topic.name} has {len(topic.partitions)} partitions, none with the number {partition}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _to_bytes(name: str, value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{name} must be bytes or None, not {type(value).__name__}; encode it first")


def _read_headers(headers: HeaderPairs) -> tuple[tuple[str, bytes | None], ...]:
    pairs: Iterable[Any] = headers.items() if isinstance(headers, dict) else headers
    found = []
    for name, value in pairs:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header must be str, not {type(name).__name__}")
        found.append((name, None if value is None else _to_bytes(f"header {name}", value)))
    return tuple(found)


def _transactions(settings: ProducerSettings, cluster: Cluster, outbox: Outbox) -> Transactions | None:
    if settings.transactional_id is None:
        return None
    return Transactions(
        cluster,
        outbox,
        settings.transactional_id,
        timeout_ms=settings.transaction_timeout_ms,
        max_block_ms=settings.max_block_ms,
        is_two_phase=settings.transaction_two_phase_commit_enable,
    )


def _outbox_options(settings: ProducerSettings) -> OutboxOptions:
    return OutboxOptions(
        batch_size_bytes=settings.batch_size,
        linger_s=settings.linger_ms / 1000,
        buffer_bytes_max=settings.buffer_memory,
        request_bytes_max=settings.max_request_size,
        delivery_timeout_s=settings.delivery_timeout_ms / 1000,
        is_idempotent=settings.is_idempotent,
        has_one_in_flight=settings.max_in_flight_requests_per_connection == 1,
    )


def _sender_options(settings: ProducerSettings) -> SenderOptions:
    return SenderOptions(
        acks=settings.required_acks,
        compression=settings.compression,
        compression_level=settings.compression_level,
        in_flight_max=settings.max_in_flight_requests_per_connection,
        retries_max=settings.retries,
        metadata_max_age_s=settings.metadata_max_age_ms / 1000,
    )
