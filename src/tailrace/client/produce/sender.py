"""The sender of a producer: requests from the outbox to the leaders, with retries.

One task drains the outbox whenever a batch may be ready, and starts requests to each leader, up to a number
in flight. Batches are written in the order in which they were taken, because a request is written before the
next one to the same leader starts. A batch with a retriable error goes back to its place in the outbox.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.backoff import NEXT_TRANSACTION_BACKOFF
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientClosed, ClientError, DeliveryTimeout, RequestTimeout
from tailrace.client.leader_hint import read_hint
from tailrace.client.metadata import NO_LEADER
from tailrace.client.produce.batch import Batch
from tailrace.client.produce.delivery import Outcome
from tailrace.client.produce.identity import IdentitySource, OwnIdentity, fail_everything
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import Drained
from tailrace.client.produce.request import (
    ACKS_NONE,
    MAY_BE_WRITTEN,
    NOT_WRITTEN,
    STALE_SEQUENCE,
    build_produce,
    produce_version_max,
    read_produced,
)
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse, ProduceResponsePartition
from tailrace.records.compression import Compression

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """Kafka's configs of a sender: acks, compression.type and the like."""

    acks: int
    compression: Compression
    compression_level: int | None
    in_flight_max: int
    retries_max: int
    metadata_max_age_s: float


@dataclass(slots=True)
class _Leader:
    """The requests in flight to one leader, and the batches of the one that is being written."""

    in_flight_count: int = 0
    writing: list[Batch] | None = None

    def wrote(self, batches: list[Batch]) -> None:
        """Let the next request be written, if it waits for this one."""
        if self.writing is batches:
            self.writing = None


@dataclass(slots=True)
class _Background:
    """Background tasks, which are referenced so that they are not collected, and end with the sender."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Sender:
    """Sends the batches of an outbox. Everything but `wake` belongs to the event loop that it was started on."""

    def __init__(
        self, cluster: Cluster, outbox: Outbox, options: SenderOptions, source: IdentitySource | None = None
    ) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._options = options
        self._source = source or OwnIdentity(cluster, outbox)
        self._leaders: dict[int, _Leader] = {}
        self._background = _Background()
        self._is_refreshing = False
        self._refresh_failure_count = 0
        self._refresh_at_s = 0.0
        self._wake = asyncio.Event()
        self._is_wake_under_way = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._source.bind(self._background.start, self._wake.set)

    def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._refresh_at_s = time.monotonic() + self._options.metadata_max_age_s
        self._background.start(self._run())

    async def close(self) -> None:
        """Stop, and fail all batches without an outcome."""
        tasks = list(self._background.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        error = ClientClosed("the producer was closed before the record was acknowledged")
        for batch in self._outbox.close():
            batch.fail(error)
        self._outbox.tell_progress()
        await self._cluster.close_lane(self)

    def wake(self) -> None:
        """Wake the task that drains the outbox, from any thread; cheap if it is awake already."""
        if not self._is_wake_under_way and self._loop is not None:
            self._is_wake_under_way = True
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(self._wake.set)

    # --- taking out

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._is_wake_under_way = False
            try:
                wait_s = self._send_ready()
            except Exception as error:  # a bug must reach the futures; nothing waits for this task
                _log.exception("the producer stopped because of a bug")
                fail_everything(self._outbox, error)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _send_ready(self) -> float | None:
        """Start all requests that can start; returns the longest wait in seconds."""
        now_s = time.monotonic()
        source = self._source
        drained = self._outbox.drain(now_s, self._leader_of, self._has_capacity, source.identity, source.admits)
        for batch in drained.expired:
            self._expire(batch)
        for leader_id, batches in drained.requests.items():
            leader = self._leaders[leader_id]
            leader.in_flight_count += 1
            leader.writing = batches
            self._background.start(self._deliver(leader_id, leader, batches))
        source.mend(drained)
        self._mend_metadata(drained, now_s)
        if drained.expired:
            self._outbox.tell_progress()
            self._wake.set()  # the batches behind them may leave now, or need other numbers
        return None if drained.next_at_s is None else max(0.0, drained.next_at_s - time.monotonic())

    def _leader_of(self, target: TopicPartition) -> int:
        topic = self._cluster.view.topics.get(target.topic)
        leader_id = NO_LEADER if topic is None else topic.leader_id(target.partition)
        return leader_id if leader_id in self._cluster.view.nodes else NO_LEADER

    def _has_capacity(self, leader_id: int) -> bool:
        leader = self._leaders.get(leader_id)
        if leader is None:
            leader = self._leaders[leader_id] = _Leader()
        return leader.writing is None and leader.in_flight_count < self._options.in_flight_max

    def _expire(self, batch: Batch) -> None:
        waited_ms = self._outbox.options.delivery_timeout_s * 1000
        text = f"{batch.record_count} records for {batch.target} were not written within delivery_timeout_ms"
        self._give_up(batch, DeliveryTimeout(f"{text} ({waited_ms:g})"))

    # --- what has to be known first

    def _mend_metadata(self, drained: Drained, now_s: float) -> None:
        """Refresh the metadata of topics without a leader, and of all from time to time."""
        if drained.leaderless_topics:
            self._refresh(drained.leaderless_topics)
        elif now_s >= self._refresh_at_s:
            self._refresh_at_s = now_s + self._options.metadata_max_age_s
            self._refresh(self._outbox.topics)

    def _refresh(self, topics: Iterable[str]) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._background.start(self._refresh_topics(list(topics)))

    async def _refresh_topics(self, topics: list[str]) -> None:
        try:
            if self._refresh_failure_count:
                await asyncio.sleep(self._cluster.backoff.wait_s(self._refresh_failure_count))
            self._refresh_failure_count += 1
            with contextlib.suppress(ClientError, ApiError, RemoteProtocolError):
                view = await self._cluster.refresh(topics)
                if all(topic in view.topics and view.topics[topic].led_partitions for topic in topics):
                    self._refresh_failure_count = 0
        finally:
            self._is_refreshing = False
            self._wake.set()

    # --- one request

    async def _deliver(self, leader_id: int, leader: _Leader, batches: list[Batch]) -> None:
        """Write one request, let the next one be written, wait for the reply and complete the batches."""
        try:
            outcomes = await self._request(leader_id, leader, batches)
            failed = [batch for batch in batches if not self._settle(batch, outcomes, leader_id)]
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a bug must reach the futures too
            failed = [batch for batch in batches if not self._settle_error(batch, error)]
        finally:
            leader.in_flight_count -= 1
            leader.wrote(batches)
        self._outbox.tell_progress()
        self._wake.set()
        if failed:
            self._refresh({batch.target.topic for batch in failed})

    async def _request(
        self, leader_id: int, leader: _Leader, batches: list[Batch]
    ) -> dict[TopicPartition, ProduceResponsePartition] | None:
        """Return the leader's answer for each partition; None without acks.

        Batches that must not leave yet are put back and removed from the list.
        """
        timeout_ms = self._cluster.request_timeout_ms
        connection = await self._cluster.connection(leader_id, lane=self)
        request = await self._build(batches)
        topics = self._cluster.view.topics
        ids = {batch.target.topic: topics[batch.target.topic].topic_id for batch in batches}
        version_max = produce_version_max(batches, topics, self._source.produce_version_max)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._options.acks == ACKS_NONE:
                    await connection.send(request, version_max=version_max)
                    return None
                connection.version(ProduceRequest, version_max)  # raises before the attempt counts
                await connection.ready()
                # From here to the write nothing waits, so no earlier batch can fail meanwhile.
                leaving = self._outbox.depart(batches, connection, ids)
                if len(leaving) < len(batches):
                    batches[:] = leaving
                    if not leaving:
                        return {}
                    request = self._build_at_once(batches)
                started = connection.start_at_once(request, ProduceResponse, version_max=version_max)
                leader.wrote(batches)
                self._wake.set()
                reply = await started.reply()
        except TimeoutError:
            raise connection.give_up(ProduceRequest, timeout_ms) from None
        outcomes = read_produced(reply, {topic_id: name for name, topic_id in ids.items()})
        if reply.node_endpoints:
            hints = {target: hint for target, answer in outcomes.items() if (hint := read_hint(answer.current_leader))}
            self._cluster.learn(hints, reply.node_endpoints, ids)
        return outcomes

    async def _build(self, batches: list[Batch]) -> ProduceRequest:
        if self._options.compression is Compression.NONE or all(batch.is_encoded for batch in batches):
            return self._build_at_once(batches)
        # Compression releases the interpreter lock, so replies are read and batches filled at the same time.
        return await asyncio.get_running_loop().run_in_executor(None, self._build_at_once, batches)

    def _build_at_once(self, batches: list[Batch]) -> ProduceRequest:
        return build_produce(
            batches,
            self._cluster.view.topics,
            acks=self._options.acks,
            timeout_ms=self._cluster.request_timeout_ms,
            compression=self._options.compression,
            level=self._options.compression_level,
            transactional_id=self._source.transactional_id,
        )

    # --- settling: False when the batch goes out again, perhaps to another leader

    def _settle(
        self, batch: Batch, outcomes: dict[TopicPartition, ProduceResponsePartition] | None, asked_id: int
    ) -> bool:
        if outcomes is None:
            return self._succeed(batch, Outcome(NO_OFFSET))
        answer = outcomes.get(batch.target)
        if answer is None:
            return self._settle_error(batch, RequestTimeout(f"the broker did not say what became of {batch.target}"))
        if not answer.error_code:
            return self._succeed(batch, Outcome(answer.base_offset, answer.log_append_time_ms))
        if answer.error_code in NOT_WRITTEN:
            batch.unanswered_count -= 1
        is_stale = answer.error_code in STALE_SEQUENCE
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER or (is_stale and self._outbox.is_written(batch)):
            # An earlier attempt was written, and the broker no longer knows its offset.
            return self._succeed(batch, Outcome(NO_OFFSET))
        # If the answer names another leader there is nothing to wait for (KIP-951).
        is_moved = self._leader_of(batch.target) not in (asked_id, NO_LEADER)
        return self._settle_error(batch, _refusal(batch, answer), is_moved=is_moved)

    def _succeed(self, batch: Batch, outcome: Outcome) -> bool:
        self._outbox.acknowledge(batch, is_answer=outcome.base_offset != NO_OFFSET)
        batch.succeed(outcome)
        return True

    def _settle_error(self, batch: Batch, error: Exception, *, is_moved: bool = False) -> bool:
        is_too_large = isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE
        # The parts of a batch that is in the log would be unknown to the broker, and be written again.
        if is_too_large and batch.record_count > 1 and not batch.is_in_doubt:
            self._outbox.replace(batch, batch.split())
            return True
        if not self._source.may_pass(batch, error):
            self._give_up(batch, error)
            return True
        now_s = time.monotonic()
        is_early = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        backoff = NEXT_TRANSACTION_BACKOFF if is_early else self._cluster.backoff
        retry_at_s = now_s if is_moved else now_s + backoff.wait_s(batch.failure_count + 1)
        ends_at_s = batch.created_at_s + self._outbox.options.delivery_timeout_s
        if retry_at_s >= ends_at_s or batch.failure_count >= self._options.retries_max:
            self._give_up(batch, error)
            return True
        self._outbox.put_back(batch, retry_at_s)
        return is_early

    def _give_up(self, batch: Batch, error: Exception) -> None:
        if self._outbox.is_written(batch):
            self._succeed(batch, Outcome(NO_OFFSET))
            return
        if batch.is_in_doubt and isinstance(error, ApiError):
            error = ApiError(error.code, f"{error.message or error.code.name}; {MAY_BE_WRITTEN}")
        _log.warning("%d records for %s failed: %s", batch.record_count, batch.target, error)
        self._outbox.give_up(batch)
        batch.fail(error)
        self._source.on_given_up(batch, error)


def _refusal(batch: Batch, answer: ProduceResponsePartition) -> ApiError:
    code = ErrorCode(answer.error_code)
    message = answer.error_message or f"writing to {batch.target}"
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        message = f"a record for {batch.target} is larger than the topic's max.message.bytes allows: {message}"
    return ApiError(code, message)
