"""From the outbox to the brokers: a request for each leader, again until acknowledged.

One task looks into the outbox whenever something may be ready. For each leader it starts requests,
up to a number under way at once. Their order on the wire is the order in which the batches were
taken, because a request is written before the next one for the same leader is begun. What is refused
for now goes back into the outbox, which knows its place.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from runnel.client.backoff import NEXT_TRANSACTION_BACKOFF
from runnel.client.batch import Batch
from runnel.client.cluster import Cluster
from runnel.client.delivery import UNKNOWN_OFFSET, Outcome
from runnel.client.error import ClientClosed, ClientError, DeliveryTimeout, RequestTimeout
from runnel.client.leader_hint import read_hint
from runnel.client.metadata import NO_LEADER
from runnel.client.outbox import Outbox
from runnel.client.outbox_queue import Drained
from runnel.client.produce import ACKS_NONE, build_produce, produce_version_max, read_produced
from runnel.client.producer_identity import IdentitySource, OwnIdentity, fail_everything
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from runnel.protocol.messages.produce import ProduceRequest, ProduceResponse, ProduceResponsePartition
from runnel.records.compression import Compression

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """What producers set in Kafka's words: acks, compression.type and their neighbours."""

    acks: int
    compression: Compression
    compression_level: int | None
    in_flight_max: int
    retries_max: int
    metadata_max_age_s: float


@dataclass(slots=True)
class _Leader:
    """The requests under way at one leader, and the batches of the one that is being written."""

    in_flight_count: int = 0
    writing: list[Batch] | None = None

    def wrote(self, batches: list[Batch]) -> None:
        """Let the next request be written, if it was this one that the next was waiting for."""
        if self.writing is batches:
            self.writing = None


@dataclass(slots=True)
class _Background:
    """Tasks that nobody waits for; kept so that they are not collected, and ended with the sender."""

    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class Sender:
    """Sends what is in an outbox. Everything but `wake` belongs to the event loop it was started on."""

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
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._refresh_at_s = time.monotonic() + self._options.metadata_max_age_s
        self._background.start(self._run())

    async def close(self) -> None:
        """Stop; what is not settled fails."""
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
        """Have the outbox looked into; from any thread, and cheap when that is about to happen anyway."""
        if not self._is_wake_under_way and self._loop is not None:
            self._is_wake_under_way = True
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._wake.set)

    # --- taking out

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._is_wake_under_way = False
            try:
                wait_s = self._send_ready()
            except Exception as error:  # a bug must end in the futures, not in a task that nobody waits for
                _log.exception("the producer stopped")
                fail_everything(self._outbox, error)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _send_ready(self) -> float | None:
        """Start what may start now; how many seconds to wait at most."""
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
        self._give_up(batch, DeliveryTimeout(f"{text} ({waited_ms:g})"), is_refused=False)

    # --- what has to be known first

    def _mend_metadata(self, drained: Drained, now_s: float) -> None:
        """Ask who leads where that is not known, and now and then where it is."""
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
        """Write one request and, after the next may be written, wait for its reply and settle its batches."""
        try:
            outcomes = await self._request(leader_id, leader, batches)
            failed = [batch for batch in batches if not self._settle(batch, outcomes, leader_id)]
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a bug too must end in the futures
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
        """What the leader says of each partition; None when nobody asked it to say anything."""
        timeout_ms = self._cluster.request_timeout_ms
        connection = await self._cluster.connection(leader_id, lane=self)
        request = await self._build(batches)
        topics = self._cluster.view.topics
        names = {topics[batch.target.topic].topic_id: batch.target.topic for batch in batches}
        version_max = produce_version_max(batches, topics, self._source.produce_version_max)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._options.acks == ACKS_NONE:
                    await connection.send(request, version_max=version_max)
                    return None
                started = await connection.start(request, ProduceResponse, version_max=version_max)
                leader.wrote(batches)
                self._wake.set()
                reply = await started.reply()
        except TimeoutError:
            raise connection.give_up(ProduceRequest, timeout_ms) from None
        outcomes = read_produced(reply, names)
        if reply.node_endpoints:
            hints = {target: hint for target, answer in outcomes.items() if (hint := read_hint(answer.current_leader))}
            self._cluster.learn(hints, reply.node_endpoints)
        return outcomes

    async def _build(self, batches: list[Batch]) -> ProduceRequest:
        def build() -> ProduceRequest:
            return build_produce(
                batches,
                self._cluster.view.topics,
                acks=self._options.acks,
                timeout_ms=self._cluster.request_timeout_ms,
                compression=self._options.compression,
                level=self._options.compression_level,
                transactional_id=self._source.transactional_id,
            )

        if self._options.compression is Compression.NONE or all(batch.is_encoded for batch in batches):
            return build()
        # Compression lets go of the interpreter, so replies are read and batches filled meanwhile.
        return await asyncio.get_running_loop().run_in_executor(None, build)

    # --- settling: False when the batch goes out again, perhaps to another leader

    def _settle(
        self, batch: Batch, outcomes: dict[TopicPartition, ProduceResponsePartition] | None, asked_id: int
    ) -> bool:
        if outcomes is None:
            return self._succeed(batch, Outcome(UNKNOWN_OFFSET))
        answer = outcomes.get(batch.target)
        if answer is None:
            return self._settle_error(batch, RequestTimeout(f"the broker did not say what became of {batch.target}"))
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return self._succeed(batch, Outcome(UNKNOWN_OFFSET))  # an earlier attempt arrived; its offset is forgotten
        if answer.error_code:
            # Who is told of another leader goes there at once (KIP-951).
            is_moved = self._leader_of(batch.target) not in (asked_id, NO_LEADER)
            return self._settle_error(batch, _refusal(batch, answer), is_moved=is_moved)
        return self._succeed(batch, Outcome(answer.base_offset, answer.log_append_time_ms))

    def _succeed(self, batch: Batch, outcome: Outcome) -> bool:
        self._outbox.acknowledge(batch)
        batch.succeed(outcome)
        return True

    def _settle_error(self, batch: Batch, error: Exception, *, is_moved: bool = False) -> bool:
        if isinstance(error, ApiError) and error.code is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._outbox.replace(batch, batch.split())
            return True
        if not self._source.may_pass(batch, error):
            self._give_up(batch, error, is_refused=isinstance(error, ApiError))
            return True
        now_s = time.monotonic()
        is_early = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
        backoff = NEXT_TRANSACTION_BACKOFF if is_early else self._cluster.backoff
        retry_at_s = now_s if is_moved else now_s + backoff.wait_s(batch.failure_count + 1)
        ends_at_s = batch.created_at_s + self._outbox.options.delivery_timeout_s
        if retry_at_s >= ends_at_s or batch.failure_count >= self._options.retries_max:
            self._give_up(batch, error, is_refused=False)
            return True
        self._outbox.put_back(batch, retry_at_s)
        return is_early

    def _give_up(self, batch: Batch, error: Exception, *, is_refused: bool) -> None:
        _log.warning("%d records for %s were not written: %s", batch.record_count, batch.target, error)
        self._outbox.give_up(batch, is_refused=is_refused)
        batch.fail(error)
        self._source.on_given_up(batch, error)


def _refusal(batch: Batch, answer: ProduceResponsePartition) -> ApiError:
    code = ErrorCode(answer.error_code)
    message = answer.error_message or f"writing to {batch.target}"
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        message = f"a record for {batch.target} is larger than the topic's max.message.bytes allows: {message}"
    return ApiError(code, message)
