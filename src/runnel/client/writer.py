"""Writing records for those who look at batches and not at single records: the command line, tests, the demo.

    async with Writer(cluster, compression=Compression.ZSTD) as writer:
        await writer.send("page_views", b"user-7", b"/pricing")

It is the producer's outbox and sender without a future for each record. What is sent again after a
lost reply is written once, unless there are no acks, and order within a partition is kept.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from runnel.base.limits import PRODUCE_BUFFER_BYTES_MAX, PRODUCE_REQUEST_BYTES_MAX
from runnel.client.cluster import Cluster
from runnel.client.delivery import Outcome
from runnel.client.error import BrokerUnavailable, RequestTimeout
from runnel.client.metadata import Topic
from runnel.client.outbox import Outbox
from runnel.client.outbox_queue import OutboxOptions
from runnel.client.partitioner import StickyPartition
from runnel.client.produce import ACKS_ALL, ACKS_NONE
from runnel.client.row import HeaderPairs, Row, row_size_bytes
from runnel.client.sender import Sender, SenderOptions
from runnel.client.topic_partition import TopicPartition
from runnel.records.compression import Compression
from runnel.records.murmur2 import partition_for_key

__all__ = ["ACKS_ALL", "ACKS_NONE", "BATCH_SIZE_BYTES", "Delivery", "Writer"]

_PASSING = (BrokerUnavailable, RequestTimeout)

BATCH_SIZE_BYTES = 512 * 1024
_IN_FLIGHT_MAX = 5
_RETRIES_MAX = 2**31 - 1
_UNKNOWN_TOPIC_TIMEOUT_MS = 5_000  # creating a topic on the way takes a moment
_METADATA_MAX_AGE_S = 300.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch; without acks there is no offset to tell."""

    target: TopicPartition
    record_count: int
    base_offset: int = -1
    error: Exception | None = None


class _BatchReceipt:
    """Tells a function what became of each batch."""

    def __init__(self, tell: Callable[[Delivery], None]) -> None:
        self._tell = tell

    def add(self) -> None:
        """Single records are nobody's business."""

    def part(self, start: int, stop: int) -> Self:  # noqa: ARG002
        """The same for half a batch."""
        return self

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:  # noqa: ARG002
        """Tell that the batch is written."""
        self._tell(Delivery(target, record_count, outcome.base_offset))

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Tell that it is not."""
        self._tell(Delivery(target, record_count, error=error))


class Writer:
    """Sends records to the leaders of their partitions. Use it as an async context manager."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        batch_size_bytes: int = BATCH_SIZE_BYTES,
        linger_ms: float = 5,
        delivery_timeout_ms: int = 120_000,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._batch_size_bytes = batch_size_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._on_delivery = on_delivery
        options = OutboxOptions(
            batch_size_bytes=batch_size_bytes,
            linger_s=linger_ms / 1000,
            buffer_bytes_max=PRODUCE_BUFFER_BYTES_MAX,
            request_bytes_max=PRODUCE_REQUEST_BYTES_MAX,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            is_idempotent=acks == ACKS_ALL,
        )
        self._outbox = Outbox(options, lambda: _BatchReceipt(self._tell))
        self._outbox.on_progress(self._on_progress)
        self._sender = Sender(
            cluster,
            self._outbox,
            SenderOptions(acks, compression, None, _IN_FLIGHT_MAX, _RETRIES_MAX, _METADATA_MAX_AGE_S),
        )
        self._sticky: dict[str, StickyPartition] = {}
        self._error: Exception | None = None
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._sender.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self.close()

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderPairs = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take a record and return; it leaves with its batch. Waits only for metadata and for room.

        Raises the error of an earlier record that could not be written.
        """
        if self._error is not None:
            raise self._error
        found = self._cluster.known_topic(topic) or await self._find_topic(topic)
        if partition is None:
            partition = self._choose_partition(found, key, value)
        elif not 0 <= partition < len(found.partitions):
            await self._cluster.leader_id(topic, partition)  # raises, and says how many there are
        now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        pairs = tuple(headers)
        size_bytes = row_size_bytes(key, value, pairs)
        row = (now_ms, key, value, pairs)
        while (taken := self._outbox.append(topic, partition, row, size_bytes, time.monotonic())) is None:
            await self._wait_for_progress()
        if taken[1]:
            self._sender.wake()
            await asyncio.sleep(0)  # a loop that only sends must let the batch leave

    async def flush(self) -> None:
        """Return when every record sent so far is acknowledged, or raise the first error."""
        mark = self._outbox.begin_flush()
        try:
            self._sender.wake()
            while not self._outbox.is_complete(mark):
                await self._wait_for_progress()
        finally:
            self._outbox.end_flush()
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Stop sending; records that were not flushed are dropped."""
        self._on_delivery = None
        await self._sender.close()

    # --- choosing

    async def _find_topic(self, name: str) -> Topic:
        timeout_ms = min(self._delivery_timeout_ms, _UNKNOWN_TOPIC_TIMEOUT_MS)
        try:
            return await self._cluster.topic(name, allow_auto_create=True, timeout_ms=timeout_ms)
        except _PASSING:
            stale = self._cluster.view.topics.get(name)
            if stale is None or not stale.partitions:
                raise
            return stale  # what was known an hour ago is most likely still so, and sending will tell

    def _choose_partition(self, topic: Topic, key: bytes | None, value: bytes | None) -> int:
        if key is not None:
            return partition_for_key(key, len(topic.partitions))
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            sticky = self._sticky[topic.name] = StickyPartition(self._batch_size_bytes)
        return sticky.choose(topic.led_partitions or range(len(topic.partitions)), len(value or b""))

    # --- settling

    def _tell(self, delivery: Delivery) -> None:
        self._error = self._error or delivery.error
        if self._on_delivery is not None:
            self._on_delivery(delivery)

    def _on_progress(self) -> None:
        self._progress.set()

    async def _wait_for_progress(self) -> None:
        if self._error is not None:
            raise self._error
        self._progress.clear()
        await self._progress.wait()
