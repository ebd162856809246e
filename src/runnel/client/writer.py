"""Writing records: batches for each partition, a request for each leader, again until acknowledged.

    async with Writer(cluster, compression=Compression.ZSTD) as writer:
        await writer.send("page_views", b"user-7", b"/pricing")

It makes no promise beyond that of Kafka's producer without idempotence: after a lost reply a
batch is sent again and may then be there twice. Order within a partition is kept.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from runnel.base.limits import PRODUCE_BUFFER_BYTES_MAX, PRODUCE_REQUEST_BYTES_MAX
from runnel.client.accumulator import Accumulator, Batch, HeaderPairs, TopicPartition
from runnel.client.cluster import Cluster
from runnel.client.error import BrokerUnavailable, ClientError, RequestTimeout
from runnel.client.metadata import NO_LEADER, Topic
from runnel.client.partitioner import StickyPartition
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponse,
    ProduceResponsePartition,
)
from runnel.protocol.primitive import ZERO_UUID
from runnel.records.compression import Compression
from runnel.records.murmur2 import partition_for_key

_PASSING = (BrokerUnavailable, RequestTimeout)

ACKS_ALL = -1
ACKS_NONE = 0
BATCH_SIZE_BYTES = 512 * 1024
_UNKNOWN_TOPIC_TIMEOUT_MS = 5_000  # creating a topic on the way takes a moment
_NAMES_VERSION_MAX = 12  # the last version of Produce that names topics instead of giving their ids


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch; without acks there is no offset to tell."""

    target: TopicPartition
    record_count: int
    base_offset: int = -1
    error: Exception | None = None


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
        self._acks = acks
        self._is_compressed = compression is not Compression.NONE
        self._batch_size_bytes = batch_size_bytes
        self._delivery_timeout_s = delivery_timeout_ms / 1000
        self._on_delivery = on_delivery
        self._accumulator = Accumulator(compression, batch_size_bytes, linger_ms / 1000)
        self._sticky: dict[str, StickyPartition] = {}
        self._error: Exception | None = None
        self._is_flushing = False
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._requests: set[asyncio.Task[None]] = set()
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sender = asyncio.get_running_loop().create_task(self._run())
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
        target = TopicPartition(topic, partition)
        if self._accumulator.append(target, now_ms, key, value, headers, time.monotonic()):
            self._wake.set()
            await asyncio.sleep(0)  # a loop that only sends must let the batch leave
        while self._accumulator.held_bytes > PRODUCE_BUFFER_BYTES_MAX:
            await self._wait_for_progress()

    async def flush(self) -> None:
        """Return when every record sent so far is acknowledged, or raise the first error."""
        self._is_flushing = True
        try:
            self._wake.set()
            while self._accumulator.held_batches:
                await self._wait_for_progress()
        finally:
            self._is_flushing = False
        if self._error is not None:
            raise self._error

    async def close(self) -> None:
        """Stop sending; records that were not flushed are dropped."""
        tasks = [task for task in (self._sender, *self._requests) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._sender = None
        await self._cluster.close_lane(self)

    # --- choosing

    async def _find_topic(self, name: str) -> Topic:
        timeout_ms = min(self._delivery_timeout_s * 1000, _UNKNOWN_TOPIC_TIMEOUT_MS)
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

    # --- sending

    async def _wait_for_progress(self) -> None:
        if self._error is not None:
            raise self._error
        self._progress.clear()
        await self._progress.wait()

    async def _run(self) -> None:
        """Send what is ready, then sleep until something becomes ready."""
        while True:
            self._wake.clear()
            for leader_id, batches in self._take_ready().items():
                task = asyncio.get_running_loop().create_task(self._deliver(leader_id, batches))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
            next_at_s = self._accumulator.next_ready_at_s(flush=self._is_flushing)
            timeout_s = None if next_at_s is None else max(0.0, next_at_s - time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()

    def _take_ready(self) -> dict[int, list[Batch]]:
        """The batches to send now, by the leader to send them to; a request's worth for each."""
        requests: dict[int, list[Batch]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for target in self._accumulator.ready(time.monotonic(), flush=self._is_flushing):
            topic = self._cluster.view.topics.get(target.topic)
            leader_id = NO_LEADER if topic is None else topic.leader_id(target.partition)
            if sizes[leader_id] >= PRODUCE_REQUEST_BYTES_MAX:
                self._wake.set()  # the rest goes with the next request
                continue
            batch = self._accumulator.take(target)
            requests[leader_id].append(batch)
            sizes[leader_id] += batch.size_bytes
        return requests

    async def _deliver(self, leader_id: int, batches: list[Batch]) -> None:
        """Send one request, settle each of its batches, and learn who leads those that go out again."""
        try:
            if leader_id == NO_LEADER:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{batches[0].target} has no leader")
            outcomes = await self._request(leader_id, batches)
            failed = [batch for batch in batches if not self._settle(batch, outcomes.get(batch.target))]
        except Exception as error:  # a bug too must end in flush(), not in a task that nobody waits for
            failed = [batch for batch in batches if not self._settle_error(batch, error)]
        finally:
            self._wake.set()
            self._progress.set()
        if failed:
            with contextlib.suppress(ClientError, ApiError, RemoteProtocolError):
                await self._cluster.refresh(batch.target.topic for batch in failed)

    async def _request(
        self, leader_id: int, batches: list[Batch]
    ) -> dict[TopicPartition, ProduceResponsePartition | None]:
        connection = await self._cluster.connection(leader_id, lane=self)
        if self._is_compressed:
            # Compression lets go of the interpreter, so meanwhile the next batches fill.
            await asyncio.get_running_loop().run_in_executor(None, _build, batches)
        names = self._topic_names(batches)
        version_max = None if ZERO_UUID not in names else _NAMES_VERSION_MAX
        request = self._build_request(batches)
        if self._acks == ACKS_NONE:
            await connection.send(request, version_max=version_max)
            return dict.fromkeys(batch.target for batch in batches)
        reply = await connection.request(
            request,
            ProduceResponse,
            version_max=version_max,
            timeout_ms=self._cluster.request_timeout_ms,
        )
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in reply.responses
            for partition in topic.partition_responses
        }

    def _topic_names(self, batches: list[Batch]) -> dict[object, str]:
        topics = self._cluster.view.topics
        return {topics[batch.target.topic].topic_id: batch.target.topic for batch in batches}

    def _build_request(self, batches: list[Batch]) -> ProduceRequest:
        by_topic: dict[str, list[ProduceRequestPartition]] = defaultdict(list)
        for batch in batches:
            by_topic[batch.target.topic].append(
                ProduceRequestPartition(index=batch.target.partition, records=batch.data())
            )
        topics = self._cluster.view.topics
        return ProduceRequest(
            acks=self._acks,
            timeout_ms=self._cluster.request_timeout_ms,
            topic_data=[
                ProduceRequestTopic(name=name, topic_id=topics[name].topic_id, partition_data=partitions)
                for name, partitions in by_topic.items()
            ],
        )

    # --- settling: True when the batch is done with, False when it goes out again

    def _settle(self, batch: Batch, outcome: ProduceResponsePartition | None) -> bool:
        if outcome is None and self._acks != ACKS_NONE:
            return self._settle_error(batch, RequestTimeout(f"the broker did not say what became of {batch.target}"))
        if outcome is not None and outcome.error_code:
            message = outcome.error_message or f"writing to {batch.target}"
            return self._settle_error(batch, ApiError(ErrorCode(outcome.error_code), message))
        base_offset = -1 if outcome is None else outcome.base_offset
        self._finish(batch, Delivery(batch.target, batch.record_count, base_offset))
        return True

    def _settle_error(self, batch: Batch, error: Exception) -> bool:
        if isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._accumulator.replace(batch, batch.split())
            return True
        may_pass = error.code.retriable if isinstance(error, ApiError) else isinstance(error, _PASSING)
        retry_at_s = time.monotonic() + self._cluster.backoff.wait_s(batch.failure_count + 1)
        if may_pass and retry_at_s < batch.created_at_s + self._delivery_timeout_s:
            self._accumulator.put_back(batch, retry_at_s)
            return False
        self._error = self._error or error
        self._finish(batch, Delivery(batch.target, batch.record_count, error=error))
        return True

    def _finish(self, batch: Batch, delivery: Delivery) -> None:
        self._accumulator.done(batch)
        if self._on_delivery is not None:
            self._on_delivery(delivery)


def _build(batches: list[Batch]) -> None:
    for batch in batches:
        batch.data()
