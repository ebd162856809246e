"""How large the replicas of partitions are, and by that how far those have come that are still being filled."""

import asyncio
from collections.abc import Iterable, Mapping

from runnel.client.admin_reassignment import Reassignment
from runnel.client.cluster import Cluster
from runnel.client.error import ClientError
from runnel.client.topic_partition import TopicPartition
from runnel.protocol.errors import ApiError, RemoteProtocolError
from runnel.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
)

Sizes = Mapping[int, Mapping[TopicPartition, int]]
"""Bytes by broker and partition."""


async def find_replica_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[int, dict[TopicPartition, int]]:
    """The bytes of some partitions on all brokers; a broker that does not answer is left out."""
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    asked = [DescribeLogDirsRequestTopic(topic=name, partitions=found) for name, found in indexes.items()]
    brokers = list(cluster.view.nodes)
    found = await asyncio.gather(*[_ask(cluster, broker, asked) for broker in brokers])
    return {broker: sizes for broker, sizes in zip(brokers, found, strict=True) if sizes is not None}


async def _ask(
    cluster: Cluster, broker: int, asked: list[DescribeLogDirsRequestTopic]
) -> dict[TopicPartition, int] | None:
    try:
        reply = await cluster.request(broker, DescribeLogDirsRequest(topics=asked), DescribeLogDirsResponse)
    except (ClientError, ApiError, RemoteProtocolError):
        return None
    sizes: dict[TopicPartition, int] = {}
    for folder in reply.results:
        for topic in folder.topics:
            for told in topic.partitions:
                if not told.is_future_key:
                    sizes[TopicPartition(topic.name, told.partition_index)] = told.partition_size
    return sizes


def progress_of(partition: TopicPartition, move: Reassignment, sizes: Sizes) -> float:
    """Which part of a partition has arrived where it shall be, from 0 to 1, by the slowest of the new replicas."""
    there = [broker for broker in move.replicas if broker not in move.adding]
    full = max((sizes.get(broker, {}).get(partition, 0) for broker in there), default=0)
    if not full:
        return 0.0
    return min((min(1.0, sizes.get(broker, {}).get(partition, 0) / full) for broker in move.adding), default=1.0)
