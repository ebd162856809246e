"""A producer that reports batches instead of records, on a cluster of the caller: for the command line and the demo.

    async with Writer(cluster, compression=Compression.ZSTD) as writer:
        await writer.send("page_views", b"user-7", b"/pricing")

It is the core of the producers without a future for each record.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tailrace.base.sentinel import ACKS_ALL, NO_OFFSET
from tailrace.client.cluster import Cluster
from tailrace.client.produce.core import ProducerCore
from tailrace.client.produce.delivery import Outcome
from tailrace.client.produce.row import HeaderPairs, Row
from tailrace.client.setting import ProducerSettings
from tailrace.client.topic_partition import TopicPartition
from tailrace.records.compression import Compression

_UNKNOWN_TOPIC_TIMEOUT_MS = 5_000  # the broker may have to create the topic first


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of a batch; without acks there is no offset."""

    target: TopicPartition
    record_count: int
    base_offset: int = NO_OFFSET
    error: Exception | None = None


class _BatchReceipt:
    """Calls a function with the outcome of each batch."""

    def __init__(self, tell: Callable[[Delivery], None]) -> None:
        self._tell = tell

    def add(self) -> None:
        """Do nothing for a single record."""

    def part(self, start: int, stop: int) -> Self:
        """Return the receipt for a part of a split batch, which is this one."""
        return self

    def succeed(self, target: TopicPartition, rows: Sequence[Row], record_count: int, outcome: Outcome) -> None:
        """Report that the batch is written."""
        self._tell(Delivery(target, record_count, outcome.base_offset))

    def fail(self, target: TopicPartition, record_count: int, error: Exception) -> None:
        """Report that the batch is not written."""
        self._tell(Delivery(target, record_count, error=error))


class Writer:
    """Sends records to the leaders of their partitions. Use it as an async context manager."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        batch_size_bytes: int = ProducerSettings.batch_size.default,
        linger_ms: int = ProducerSettings.linger_ms.default,
        delivery_timeout_ms: int = ProducerSettings.delivery_timeout_ms.default,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        settings = ProducerSettings(
            None,
            None,
            {
                "acks": acks,
                "batch_size": batch_size_bytes,
                "compression_type": compression.config_name,
                "delivery_timeout_ms": delivery_timeout_ms,
                "linger_ms": linger_ms,
                "max_block_ms": min(delivery_timeout_ms, _UNKNOWN_TOPIC_TIMEOUT_MS),
                "request_timeout_ms": max(1, delivery_timeout_ms - linger_ms),  # the cluster has its own
            },
        )
        self._core = ProducerCore(settings, lambda: _BatchReceipt(self._tell), cluster=cluster)
        self._outbox = self._core.outbox
        self._outbox.on_progress(self._on_progress)
        self._on_delivery = on_delivery
        self._error: Exception | None = None
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._core.start()
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
        """Take a record and return; it is sent with its batch. Waits only for metadata and for memory.

        Raises the error of an earlier record that could not be written.
        """
        if self._error is not None:
            raise self._error
        core = self._core
        found = core.known_topic(topic) or await core.find_topic(topic)
        chosen, row, size_bytes = core.prepare(found, key, value, headers, partition, timestamp_ms)
        while (taken := self._outbox.append(topic, chosen, row, size_bytes, time.monotonic())) is None:
            await self._wait_for_progress()
        if taken[1]:
            core.sender.wake()
            await asyncio.sleep(0)  # a loop that only sends must give the sender its turn

    async def flush(self) -> None:
        """Return when every record that was sent is acknowledged, or raise the first error."""
        mark = self._outbox.begin_flush()
        try:
            self._core.sender.wake()
            while not self._outbox.is_complete(mark):
                await self._wait_for_progress()
        finally:
            self._outbox.end_flush()
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Stop sending, and drop the records that were not flushed."""
        self._on_delivery = None
        await self._core.close()

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
