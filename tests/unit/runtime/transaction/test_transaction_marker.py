"""Ends of transactions on their way to partitions that cannot take them yet, do not exist, or are led elsewhere."""

import asyncio
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import pytest
from tests.logged import logged

from tailrace.base.sentinel import NO_BROKER
from tailrace.client.error import BrokerUnavailable
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import PartitionRecord, TopicRecord
from tailrace.machines.transaction.decision import EndMarkers
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.transaction_marker import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from tailrace.runtime.append import TransactionMarker
from tailrace.runtime.transaction import marker as transaction_marker
from tailrace.runtime.transaction.marker import MarkerSender, MarkerTask
from tailrace.runtime.transaction.marker_write import MarkerWriter

# Markers are sent again after a while: whether it happens, and that it does not, shows at once on virtual time.
pytestmark = pytest.mark.virtual_time

HERE, THERE = 1, 2
TopicPartition = tuple[str, int]


class Writer:
    """Writes into the partitions of this broker; the test says what comes of it."""

    def __init__(self) -> None:
        self.outcomes: dict[TopicPartition, list[ErrorCode]] = {}
        self.asked: list[TopicPartition] = []

    def write(self, topic: str, index: int, _marker: TransactionMarker, written: Any) -> None:
        self.asked.append((topic, index))
        outcomes = self.outcomes.get((topic, index))
        written(outcomes.pop(0) if outcomes else ErrorCode.NONE)


class Other:
    """The connection to another broker."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.requests: list[WriteTxnMarkersRequest] = []
        self.outcomes: list[ErrorCode | Exception] = []

    async def connect(self) -> "Other":
        return self

    async def request(self, request: WriteTxnMarkersRequest, *_: object, **__: object) -> WriteTxnMarkersResponse:
        self.requests.append(request)
        await asyncio.sleep(0)
        outcome = self.outcomes.pop(0) if self.outcomes else ErrorCode.NONE
        if isinstance(outcome, Exception):
            raise outcome
        return WriteTxnMarkersResponse(
            markers=[
                WriteTxnMarkersResponseMarker(
                    producer_id=marker.producer_id,
                    topics=[
                        WriteTxnMarkersResponseTopic(
                            name=topic.name,
                            partitions=[
                                WriteTxnMarkersResponsePartition(partition_index=index, error_code=outcome)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    async def close(self) -> None:
        pass


class Bench:
    """A sender in a cluster of two brokers; this one leads partition 0, and the other one partition 1."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.image.replay(TopicRecord("t", UUID(int=1), ((HERE, THERE), (THERE, HERE))))
        self.lead(0, HERE)
        self.lead(1, THERE)
        self.writer, self.other = Writer(), Other(THERE)
        self.sender = MarkerSender(
            HERE, self.image, cast("MarkerWriter", self.writer), lambda _: cast("Any", self.other)
        )
        self.written: set[TopicPartition] = set()
        self.faults: list[Exception] = []  # raised when the next news come
        self.is_wanted = True

    def lead(self, index: int, broker_id: int) -> None:
        self.image.replay(PartitionRecord("t", index, broker_id, 0, (HERE, THERE)))

    def send(self, *partitions: TopicPartition, producer_id: int = 7) -> None:
        markers = EndMarkers("x", producer_id, 0, 3, 0, True, frozenset(partitions), 1)
        self.sender.send(MarkerTask(markers, lambda: self.is_wanted, self._hear))

    def _hear(self, partitions: Iterable[TopicPartition]) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.written |= set(partitions)

    async def until_written(self, *partitions: TopicPartition) -> None:
        async with asyncio.timeout(60):
            while self.written != set(partitions):
                await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_marker, "MARKER_RETRY_MS", 1)


async def test_what_this_broker_leads_is_written_at_once() -> None:
    bench = Bench()
    bench.send(("t", 0))
    assert bench.written == {("t", 0)}


async def test_other_leaders_are_told_in_as_few_requests_as_possible() -> None:
    bench = Bench()
    for producer_id in range(5):
        bench.send(("t", 1), producer_id=producer_id)
    await bench.until_written(("t", 1))
    for producer_id in range(5, 9):
        bench.send(("t", 1), producer_id=producer_id)
    async with asyncio.timeout(60):
        while len(bench.other.requests) < 2:
            await asyncio.sleep(0.001)
    assert [len(request.markers) for request in bench.other.requests] == [5, 4]
    (marker, *_) = bench.other.requests[0].markers
    assert (marker.coordinator_epoch, marker.transaction_result) == (3, True)
    await bench.sender.stop()


@pytest.mark.parametrize(
    "outcome",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_what_is_not_written_is_sent_again(outcome: ErrorCode) -> None:
    bench = Bench()
    bench.writer.outcomes["t", 0] = [outcome, outcome]
    bench.other.outcomes = [outcome, BrokerUnavailable("gone"), outcome]
    bench.send(("t", 0), ("t", 1))
    await bench.until_written(("t", 0), ("t", 1))
    assert len(bench.writer.asked) == 3
    assert len(bench.other.requests) == 4
    await bench.sender.stop()


async def test_a_partition_without_a_leader_is_waited_for_and_a_deleted_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    bench.lead(0, NO_BROKER)
    bench.send(("t", 0), ("gone", 0), ("t", 9))
    await bench.until_written(("gone", 0), ("t", 9))
    assert bench.sender.unled_count() == 1
    await asyncio.sleep(0.01)
    bench.lead(0, HERE)
    assert bench.sender.unled_count() == 0, "it is only late by now"
    await bench.until_written(("gone", 0), ("t", 9), ("t", 0))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["the markers of transaction x for t-0 are delayed: the partition has no leader"]


async def test_a_coordinator_that_was_succeeded_leaves_it_to_the_next() -> None:
    bench = Bench()
    bench.writer.outcomes["t", 0] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    bench.other.outcomes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
    bench.send(("t", 0), ("t", 1))
    async with asyncio.timeout(60):
        while len(bench.other.requests) < 3:
            await asyncio.sleep(0.001)
    bench.is_wanted = False
    await asyncio.sleep(0.01)
    count = len(bench.other.requests)
    await asyncio.sleep(0.02)
    assert (len(bench.other.requests), bench.written, len(bench.writer.asked)) == (count, set(), 1)
    await bench.sender.stop()


async def test_a_later_epoch_in_the_log_needs_no_marker_any_more(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.writer.outcomes["t", 0] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    bench.send(("t", 0))
    assert bench.written == {("t", 0)}
    assert "t-0 has a later producer epoch of transaction x" in logged(caplog)


async def test_a_bug_costs_no_marker(caplog: pytest.LogCaptureFixture) -> None:
    """What an unexpected exception hit on its way to another broker was dropped, and what had to wait with it, too:
    nobody would ever have written these markers.
    """
    bench = Bench()
    bench.lead(0, NO_BROKER)
    bench.other.outcomes = [ValueError("a bug"), ValueError("a bug")]
    bench.send(("t", 0), ("t", 1))
    bench.send(("t", 0), producer_id=8)
    await bench.until_written(("t", 1))
    look = bench.sender._leader_of
    looks = 0

    def stumble(partition: TopicPartition) -> int:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise ValueError("another bug")
        return look(partition)

    bench.sender._leader_of = stumble  # type: ignore[method-assign]
    bench.lead(0, HERE)
    await bench.until_written(("t", 0), ("t", 1))
    async with asyncio.timeout(60):
        while len(bench.writer.asked) < 2:
            await asyncio.sleep(0.001)
    assert len(bench.other.requests) == 3
    assert "ValueError: a bug" in logged(caplog)


async def test_a_bug_in_the_coordinator_loses_no_news(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.faults = [ValueError("a bug"), ValueError("a bug")]
    bench.send(("t", 0))
    await bench.until_written(("t", 0))
    told = [record for record in caplog.records if record.exc_info is not None]
    assert [record.getMessage() for record in told] == ["markers of transaction x could not be sent"], "once is enough"
