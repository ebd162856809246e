"""A client finds the coordinator of a group or of a transactional id, also after it died."""

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable
from tailrace.client.group.coordinator import Coordinator, CoordinatorKind
from tailrace.client.group.offset import fetch_offsets
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.protocol.message import Message
from tailrace.protocol.messages.coordinator import FindCoordinatorResponse
from tailrace.protocol.messages.producer import InitProducerIdResponse

DEAD, ALIVE = 1, 2


class Connection:
    """Answers every request with success."""

    address = "broker-2:9092"
    finalized_features: ClassVar = {"transaction.version": 2}

    def version(self, request: type[Message], version_max: int = 99) -> int:
        return min(request.SCHEMA.versions[-1], version_max)

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
