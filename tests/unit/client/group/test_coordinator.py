"""A client finds the coordinator of a group or of a transactional id, also after it died."""

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from uuid import UUID

import pytest

from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable
from tailrace.client.group.coordinator import Coordinator, CoordinatorKind
from tailrace.client.group.offset import OffsetAndMetadata, fetch_offsets
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.protocol.message import Message
from tailrace.protocol.messages.coordinator import FindCoordinatorResponse
from tailrace.protocol.messages.group_offset import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
)
from tailrace.protocol.messages.producer import InitProducerIdResponse

DEAD, ALIVE = 1, 2


class Connection:
    """Answers every request with success."""

    address = "broker-2:9092"
    finalized_features: ClassVar = {"transaction.version": 2}

    def version(self, request: type[Message], version_max: int | None = None) -> int:
        return min(request.SCHEMA.versions[-1], 99 if version_max is None else version_max)

    async def request(self, _request: Message, reply_type: type[Message], **_options: Any) -> Message:
        return reply_type()


class TwoBrokers:
    """The coordinator is dead, which the other broker hears of when it has been asked once."""

    def __init__(self) -> None:
        self.view = SimpleNamespace(nodes={DEAD, ALIVE})
        self.find_count = 0

    async def request_any(self, _request: Message, _reply_type: type[Message], **_options: Any) -> Message:
        self.find_count += 1
        return FindCoordinatorResponse(node_id=DEAD if self.find_count == 1 else ALIVE)

    async def connection(self, node_id: int, _lane: object) -> Connection:
        if node_id == DEAD:
            raise BrokerUnavailable("nobody listens")
        return Connection()


@pytest.fixture
def cluster() -> Cluster:
    return cast("Cluster", TwoBrokers())


async def test_a_producer_that_begins_while_its_coordinator_is_dead_finds_the_next_one(cluster: Cluster) -> None:
    """It asked the dead one again and again until its time was over, because brokers had named it once."""
    coordinator = TransactionCoordinator(cluster, "x")
    with pytest.raises(BrokerUnavailable):
        await coordinator.init(60_000)
    assert await coordinator.init(60_000) == InitProducerIdResponse()


async def test_a_transaction_is_completed_though_its_coordinator_has_just_died(cluster: Cluster) -> None:
    coordinator = TransactionCoordinator(cluster, "x")
    with pytest.raises(BrokerUnavailable):
        await coordinator.is_v2()
    assert await coordinator.is_v2()


async def test_offsets_are_found_though_the_coordinator_has_just_died(cluster: Cluster) -> None:
    coordinator = Coordinator(cluster, "g", CoordinatorKind.GROUP)
    with pytest.raises(BrokerUnavailable):
        await fetch_offsets(coordinator, None)
    assert await fetch_offsets(coordinator, None) == {}


async def test_a_commit_for_another_topic_of_the_same_name_is_not_found() -> None:
    """A broker that had not heard of the new topic yet gave a consumer the offset of the deleted one."""
    place = TopicPartition("t", 0)
    asked: list[OffsetFetchRequest] = []

    class Recording(Connection):
        async def request(self, _request: Message, reply_type: type[Message], **_options: Any) -> Message:
            assert isinstance(_request, OffsetFetchRequest)
            asked.append(_request)
            topic = _request.groups[0].topics[0]  # type: ignore[index]
            partition = OffsetFetchResponseGroupPartition(partition_index=0, committed_offset=7)
            found = OffsetFetchResponseGroupTopic(topic_id=topic.topic_id, partitions=[partition])
            return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[found])])

    brokers = TwoBrokers()
    brokers.find_count = 1
    brokers.connection = lambda *_: asyncio.sleep(0, Recording())  # type: ignore[method-assign]
    coordinator = Coordinator(cast("Cluster", brokers), "g", CoordinatorKind.GROUP)
    found = await fetch_offsets(coordinator, [place], topic_ids={"t": UUID(int=1)})
    assert asked[0].groups[0].topics[0].topic_id == UUID(int=1)  # type: ignore[index]
    assert found == {place: OffsetAndMetadata(7)}
