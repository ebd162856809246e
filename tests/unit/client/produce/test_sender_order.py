"""The order in which a sender writes when connections break, against a broker that remembers five batches."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from tailrace.client.address import Address
from tailrace.client.backoff import Backoff
from tailrace.client.error import BrokerUnavailable, DeliveryTimeout
from tailrace.client.leader_hint import Hints, take_hints
from tailrace.client.metadata import ClusterView, Node, Partition, Topic
from tailrace.client.produce import queue
from tailrace.client.produce.delivery import LoopReceipt
from tailrace.client.produce.identity import OwnIdentity
from tailrace.client.produce.outbox import Outbox
from tailrace.client.produce.queue import OutboxOptions
from tailrace.client.produce.sender import Sender, SenderOptions
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tailrace.records.batch import read_header
from tailrace.records.compression import Compression
from tailrace.records.record import read_records
from tailrace.storage.producer_state import ProducerState

DEADLINE_S = 30.0
T0 = TopicPartition("t", 0)


class Log:
    """One partition: values, and the producer state by which a broker recognises duplicates."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.stamps: list[tuple[int, int]] = []
        """The epoch and the first sequence number of each batch."""
        self.fault = ErrorCode.NONE
        """The answer to the next batch, which is not appended."""
        self.on_refusal: Callable[[], None] = lambda: None
        """Called after a batch is rejected for its number, before the client learns of it."""
        self._producers = ProducerState(1_000_000)

    def append(self, data: Any) -> ProduceResponsePartition:
        if self.fault:
            code, self.fault = self.fault, ErrorCode.NONE
            return ProduceResponsePartition(index=0, error_code=code, base_offset=-1)
        header = read_header(data)
        try:
            duplicate = self._producers.check(header)
        except ApiError as error:
            self.on_refusal()
            return ProduceResponsePartition(index=0, error_code=error.code, base_offset=-1)
        if duplicate is not None:
            return ProduceResponsePartition(index=0, base_offset=duplicate.base_offset)
        offset = len(self.values)
        self._producers.replay(header, offset, data)
        self.stamps.append((header.producer_epoch, header.base_sequence))
        self.values += [int(record.value or b"") for record in read_records(data)]
        return ProduceResponsePartition(index=0, base_offset=offset)


class Wire:
    """A connection that appends what is written to it, and answers the first requests until it is lost."""

    def __init__(self, log: Log, answer_count: float) -> None:
        self.answer_count = answer_count
        self.unanswered: list[Started] = []
        self.holds = False
        """Whether the network holds what is written, until it is delivered."""
        self._held: list[Any] = []
        self.log = log
        self._is_open = True

    def version(self, *_: object) -> int:
        return 12

    async def ready(self) -> None:
        if not self._is_open:
            raise BrokerUnavailable("lost")

    def start_at_once(self, request: ProduceRequest, *_: object, **__: object) -> "Started":
        records = request.topic_data[0].partition_data[0].records
        if self.holds:
            self._held.append(records)
            self.unanswered.append(Started(ProduceResponsePartition(index=0)))
            return self.unanswered[-1]
        started = Started(self.log.append(records))
        if self.answer_count > 0:
            self.answer_count -= 1
            started.answer()
        else:
            self.unanswered.append(started)
        return started

    async def start(self, request: ProduceRequest, *_: object, **__: object) -> "Started":
        await self.ready()
        return self.start_at_once(request)

    def deliver(self) -> None:
        """Have the broker append what the network has held."""
        held, self._held = self._held, []
        for records in held:
            self.log.append(records)

    def lose(self) -> None:
        self._is_open = False
        for started in self.unanswered:
            started.future.set_exception(BrokerUnavailable("lost"))


class Started:
    """A request that was written, and its answer, which may never come."""

    def __init__(self, found: ProduceResponsePartition) -> None:
        self.future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self.nodes: list[ProduceResponseNode] = []
        self._found = found

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer what the log said, or with an error."""
        self._found.error_code = code or self._found.error_code
        topic = ProduceResponseTopic(name="t", partition_responses=[self._found])
        self.future.set_result(ProduceResponse(responses=[topic], node_endpoints=self.nodes))

    def name_leader(self, leader_id: int, leader_epoch: int) -> None:
        """Name another leader in the answer."""
        self._found.current_leader = ProduceResponseLeader(leader_id=leader_id, leader_epoch=leader_epoch)
        self.nodes = [ProduceResponseNode(node_id=leader_id, host="c", port=2)]

    async def reply(self) -> ProduceResponse:
        return await self.future


class Wires:
    """A cluster of one broker, whose connections answer so many requests each."""

    request_timeout_ms = 30_000

    def __init__(self, answer_counts: Iterable[float]) -> None:
        topic = Topic("t", UUID(int=1), False, (Partition(0, 1, 0, (1,), (1,)),))
        self.view = ClusterView(None, 1, {1: Node(1, Address("b", 1), None)}, {"t": topic})
        self.backoff = Backoff(1, 1)
        self.log = Log()
        self.may_connect = asyncio.Event()
        self.may_connect.set()
        self.asking_count = 0
        self._wires = iter([Wire(self.log, count) for count in answer_counts])
        self.wire = next(self._wires)

    async def connection(self, _: int, *, lane: Hashable) -> Wire:
        self.asking_count += 1
        await self.may_connect.wait()
        self.asking_count -= 1
        return self.wire

    def remake(self) -> None:
        """Delete the topic, and create it again."""
        self.log = self.wire.log = Log()
        topic = replace(self.view.topics["t"], topic_id=UUID(int=2))
        self.view = replace(self.view, topics={"t": topic})

    def learn(self, hints: Hints, nodes: Iterable[ProduceResponseNode], asked_ids: Mapping[str, UUID]) -> None:
        self.view, _ = take_hints(self.view, hints, nodes, asked_ids)

    def lose(self) -> None:
        """Lose the connection with all its replies; the next one is used from now on."""
        lost, self.wire = self.wire, next(self._wires)
        lost.lose()

    async def refresh(self, _: Iterable[str]) -> ClusterView:
        return self.view

    async def close_lane(self, _: Hashable) -> None:
        return


class Sending:
    """A sender whose records are batches of their own."""

    def __init__(self, wires: Wires) -> None:
        self.outbox = Outbox(OutboxOptions(62, 0.0, 10**9, 10**9, DEADLINE_S, True), LoopReceipt)
        source = OwnIdentity(wires, self.outbox)  # type: ignore[arg-type]
        source.identity = Identity(7, 0)
        options = SenderOptions(-1, Compression.NONE, None, 5, 100, DEADLINE_S)
        self.sender = Sender(wires, self.outbox, options, source)  # type: ignore[arg-type]

    def send(self, number: int) -> "asyncio.Future[Any]":
        taken = self.outbox.append("t", 0, (1000, None, b"%d" % number, ()), 20, time.monotonic())
        assert taken is not None
        self.sender.wake()
        future: asyncio.Future[Any] = taken[0]
        return future

    @property
    def waiting_count(self) -> int:
        return len(self.outbox._queues[T0].batches)


@asynccontextmanager
async def sending(*answer_counts: float) -> AsyncIterator[tuple[Wires, Sending]]:
    wires = Wires(answer_counts)
    made = Sending(wires)
    made.sender.start()
    try:
        yield wires, made
    finally:
        await made.sender.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.001)


ALL = float("inf")


async def test_what_was_taken_before_its_predecessor_failed_does_not_overtake_it() -> None:
    """Batch 2 was written and its reply lost; batch 3 was taken, and written to the next connection before 2.

    Four more followed 2. When that connection broke, too, the broker had forgotten 2 and refused it. The producer took
    that for a gap, raised the epoch and wrote all of them twice.
    """
    async with sending(1, 1, ALL) as (wires, producer):
        await producer.send(1)
        futures = [producer.send(2)]
        await until(lambda: wires.log.values == [1, 2])
        wires.may_connect.clear()
        futures.append(producer.send(3))
        await until(lambda: wires.asking_count == 1)
        wires.lose()
        await until(lambda: producer.waiting_count == 1)
        wires.may_connect.set()
        futures += [producer.send(number) for number in range(4, 12)]
        await until(lambda: len(wires.wire.unanswered) == 5)
        wires.lose()
        results = await asyncio.gather(*futures)
        assert wires.log.values == list(range(1, 12))
        assert [result.offset for result in results] == list(range(1, 11))


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
async def test_a_batch_before_an_acknowledged_one_is_written_whatever_the_broker_says(code: ErrorCode) -> None:
    """The broker could not say in time whether batch 2 is replicated, and acknowledged batch 3."""
    async with sending(ALL) as (wires, producer):
        await producer.send(1)
        wires.wire.answer_count = 0
        futures = [producer.send(2)]
        await until(lambda: len(wires.wire.unanswered) == 1)
        futures.append(producer.send(3))
        await until(lambda: len(wires.wire.unanswered) == 2)
        wires.wire.answer_count = ALL
        wires.log.fault = code
        second, third = wires.wire.unanswered
        third.answer()
        assert (await futures[1]).offset == 2
        second.answer(ErrorCode.REQUEST_TIMED_OUT)
        assert (await futures[0]).offset == -1
        assert (await producer.send(4)).offset == 3
        assert wires.log.values == [1, 2, 3, 4]


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_the_number_of_a_batch_that_was_rejected_is_used_again(code: ErrorCode) -> None:
    async with sending(ALL) as (wires, producer):
        await producer.send(1)
        wires.log.fault = code
        with pytest.raises(ApiError, match=code.name):
            await producer.send(2)
        assert (await producer.send(3)).offset == 1
        assert wires.log.stamps == [(0, 0), (0, 1)]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION])
async def test_the_number_of_a_batch_that_may_be_written_is_not_used_again(code: ErrorCode) -> None:
    """The batch is in the log, and the client is told of an error: of this attempt, or of the next one."""
    async with sending(1, ALL) as (wires, producer):
        await producer.send(1)
        doubted = producer.send(2)
        await until(lambda: wires.wire.unanswered)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            wires.wire.answer_count = ALL
            wires.wire.unanswered.pop().answer(code)
        else:
            wires.log.fault = code
            wires.lose()
        with pytest.raises(ApiError, match=f"{code.name}.*may be in the log"):
            await doubted
        assert (await producer.send(3)).offset == 2
        assert wires.log.values == [1, 2, 3]
        assert wires.log.stamps == [(0, 0), (0, 1), (1, 0)]


async def test_what_a_lost_connection_may_still_deliver_is_not_sent_under_another_number() -> None:
    """Batches 2 and 3 were held on a connection that was lost. Batch 2 was given up, so the broker rejected 3 as out of
    order. Then it read both from the lost connection, while the producer raised the epoch and wrote 3 a second time.
    """
    async with sending(1, ALL) as (wires, producer):
        await producer.send(1)
        held = wires.wire
        held.holds = True
        second, third = producer.send(2), producer.send(3)
        await until(lambda: len(held.unanswered) == 2)
        wires.log.fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        wires.log.on_refusal = held.deliver
        wires.lose()
        for doubted in (second, third):
            with pytest.raises(ApiError, match="may be in the log"):
                await doubted
        assert (await producer.send(4)).offset == 3
        assert wires.log.values == [1, 2, 3, 4]
        assert wires.log.stamps == [(0, 0), (0, 1), (0, 2), (1, 0)]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
@pytest.mark.parametrize("reason", ["remade topic", "restarted broker", "silence"])
async def test_the_first_batch_for_a_broker_that_may_not_know_the_producer_is_sent_alone(
    reason: str, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker was not ready for batch 2. It was for batch 3, and accepted it because it did not know the producer.

    It rejected batch 2 when that was sent again. The client took batch 3 for a proof that batch 2 was written, and
    reported an acknowledgement of records that were lost; or it wrote batch 2 behind batch 3.
    """
    async with sending(ALL, ALL) as (wires, producer):
        await producer.send(1)
        if reason == "remade topic":
            wires.remake()
        elif reason == "restarted broker":
            wires.lose()
            wires.log = wires.wire.log = Log()
        else:
            wires.log = wires.wire.log = Log()
            monkeypatch.setattr(queue, "SILENCE_S", 0.0)
        wires.log.fault = code
        wires.wire.answer_count = 0
        second = producer.send(2)
        await until(lambda: len(wires.wire.unanswered) == 1)
        third = producer.send(3)
        for _ in range(10):
            await asyncio.sleep(0)
        wires.wire.answer_count = ALL
        for started in wires.wire.unanswered:
            started.answer()
        results = await asyncio.gather(second, third)
        assert wires.log.values == [2, 3]
        assert [result.offset for result in results] == [0, 1]


async def test_a_batch_behind_an_expired_one_leaves_at_once() -> None:
    """Batches 2 and 3 were written, their replies lost, and both waited to be sent again when 2 expired.

    Batch 3 could leave only after 2 had failed, and nothing made the sender look at it then. It waited for the next
    record, or for its own time-out.
    """
    async with sending(1, ALL) as (wires, producer):
        await producer.send(1)
        expiring, behind = producer.send(2), producer.send(3)
        await until(lambda: len(wires.wire.unanswered) == 2)
        with patch.object(producer.sender._source, "admits", return_value=False) as admits:
            wires.lose()
            batches = producer.outbox._queues[T0].batches
            await until(lambda: not producer.sender._is_refreshing)
            await until(lambda: admits.called and all(batch.not_before_s < time.monotonic() for batch in batches))
        batches[0].created_at_s -= DEADLINE_S
        producer.sender.wake()
        with pytest.raises(DeliveryTimeout):
            await expiring
        assert (await behind).offset == 2
        assert wires.log.values == [1, 2, 3]


@pytest.mark.parametrize("is_remade", [False, True])
async def test_the_leader_of_an_earlier_topic_of_the_same_name_is_not_believed(is_remade: bool) -> None:
    """A broker named the leader of a topic that was deleted and created again since. Leader epochs had begun again.

    The client believed the higher epoch for good, and sent all records of the new topic to the wrong broker.
    """
    async with sending(0) as (wires, producer):
        producer.send(1)
        await until(lambda: wires.wire.unanswered)
        if is_remade:
            wires.remake()
        (started,) = wires.wire.unanswered
        started.name_leader(2, 5)
        started.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await until(lambda: len(wires.wire.unanswered) == 2)
        found = wires.view.topics["t"].partitions[0]
        assert (found.leader_id, found.leader_epoch) == ((1, 0) if is_remade else (2, 5))
