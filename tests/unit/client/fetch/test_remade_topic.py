"""A topic that is deleted and created again between the plan of a fetch and its request, or its answer."""

from collections.abc import Hashable
from typing import Any
from uuid import UUID

import pytest

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.fetch.fetcher import Fetcher
from tailrace.client.fetch.request import FetchOptions
from tailrace.client.metadata import ClusterView, Node, Partition, Topic
from tailrace.client.place import Place
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponseLeader,
    FetchResponseNode,
    FetchResponsePartition,
    FetchResponseTopic,
)

T0 = TopicPartition("t", 0)
OLD, NEW = UUID(int=1), UUID(int=2)


def view(topic_id: UUID) -> ClusterView:
    topic = Topic("t", topic_id, False, (Partition(0, 1, 0, (1,), (1,)),))
    return ClusterView(None, 1, {1: Node(1, Address("b", 1))}, {"t": topic})


class Broker:
    """A cluster's only connection, which answers that another broker leads."""

    def __init__(self, cluster: Cluster, *, is_late: bool) -> None:
        self.asked: list[UUID] = []
        self._cluster = cluster
        self._is_late = is_late

    async def connection(self, _: int, lane: Hashable = None) -> "Broker":
        return self

    async def request(self, request: FetchRequest, *_: Any, **__: Any) -> FetchResponse:
        (topic,) = request.topics
        self.asked.append(topic.topic_id)
        if self._is_late:
            self._cluster.view = view(NEW)
        leader = FetchResponseLeader(leader_id=2, leader_epoch=5)
        partition = FetchResponsePartition(
            partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1, current_leader=leader
        )
        return FetchResponse(
            responses=[FetchResponseTopic(topic_id=topic.topic_id, partitions=[partition])],
            node_endpoints=[FetchResponseNode(node_id=2, host="c", port=2)],
        )


def planned(monkeypatch: pytest.MonkeyPatch, *, is_late: bool) -> tuple[Cluster, Broker, Fetcher, Any]:
    """A fetch of the old topic that was planned."""
    cluster = Cluster("localhost:1")
    cluster.view = view(OLD)
    broker = Broker(cluster, is_late=is_late)
    monkeypatch.setattr(cluster, "connection", broker.connection)
    fetcher = Fetcher(cluster, FetchOptions(), reset=None, api_timeout_ms=1000, metadata_max_age_s=100.0)
    fetcher.assignment.add(T0, Place(100))
    state = fetcher.assignment.find(T0)
    state.topic_id = OLD
    return cluster, broker, fetcher, {T0: (state, state.generation, 100)}


async def test_an_old_offset_is_not_read_from_the_new_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records of the new topic were skipped."""
    cluster, broker, fetcher, asked = planned(monkeypatch, is_late=False)
    cluster.view = view(NEW)
    await fetcher._fetch_once(1, asked)
    assert broker.asked == []


async def test_the_leader_of_the_old_topic_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leader epochs had begun again. The client believed the higher one for good, and asked the wrong broker."""
    cluster, broker, fetcher, asked = planned(monkeypatch, is_late=True)
    with pytest.raises(ApiError, match="NOT_LEADER"):
        await fetcher._fetch_once(1, asked)
    assert broker.asked == [OLD]
    assert cluster.view.topics["t"].partitions[0].leader_id == 1


async def test_the_leader_of_the_same_topic_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _, fetcher, asked = planned(monkeypatch, is_late=False)
    await fetcher._fetch_once(1, asked)
    assert cluster.view.topics["t"].partitions[0].leader_id == 2
