"""The sizes of replicas, which show the progress of a reassignment."""

import asyncio
from collections.abc import Iterable, Mapping

from tailrace.client.admin.reassignment import Reassignment
from tailrace.client.cluster import Cluster
from tailrace.client.error import ClientError
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, RemoteProtocolError
from tailrace.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestTopic,
    DescribeLogDirsResponse,
)

Sizes = Mapping[int, Mapping[TopicPartition, int]]
"""Bytes by broker and partition."""


async def find_replica_sizes(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[int, dict[TopicPartition, int]]:
    """Return the sizes in bytes of partitions on all brokers; brokers that do not answer are left out."""
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
    """Return the part of a partition, from 0 to 1, that the slowest of its new replicas has."""
    there = [broker for broker in move.replicas if broker not in move.adding]
    full = max((sizes.get(broker, {}).get(partition, 0) for broker in there), default=0)
    if not full:
        return 0.0
    return min((min(1.0, sizes.get(broker, {}).get(partition, 0) / full) for broker in move.adding), default=1.0)
