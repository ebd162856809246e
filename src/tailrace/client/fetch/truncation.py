"""The check whether a log was truncated below a committed offset (KIP-320).

A commit carries the leader epoch of the last record that was read. The leader returns the end of that epoch in
its log; if it is below the committed offset, the log has other records there now.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.base.sentinel import CONSUMER_REPLICA_ID
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable, RequestTimeout
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
)

_log = logging.getLogger(__name__)


class EpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and its end offset; both -1 if there is none."""

    leader_epoch: int
    end_offset: int


async def find_epoch_ends(
    cluster: Cluster, leader_epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """Return the end offsets of epochs; partitions whose leaders do not answer are left out."""
    found: dict[TopicPartition, EpochEnd] = {}

    async def ask() -> None:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for target in leader_epochs.keys() - found.keys():
            by_leader[await cluster.leader_id(*target)].append(target)
        for leader_id, targets in by_leader.items():
            try:
                found.update(await _ask_leader(cluster, leader_id, {one: leader_epochs[one] for one in targets}))
            except (ApiError, BrokerUnavailable):
                for topic, _ in targets:
                    cluster.forget(topic)
                raise

    try:
        await cluster.retry(ask, timeout_ms=cluster.request_timeout_ms)
    except (ApiError, BrokerUnavailable, RequestTimeout) as error:
        _log.info("cannot check whether logs were truncated: %s", error)
    return found


async def _ask_leader(
    cluster: Cluster, leader_id: int, leader_epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    by_topic: dict[str, list[OffsetForLeaderEpochRequestPartition]] = defaultdict(list)
    for (topic, partition), epoch in leader_epochs.items():
        by_topic[topic].append(OffsetForLeaderEpochRequestPartition(partition=partition, leader_epoch=epoch))
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderEpochRequestTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
    reply = await cluster.request(leader_id, request, OffsetForLeaderEpochResponse)
    found = {}
    for item in reply.topics:
        for answer in item.partitions:
            target = TopicPartition(item.topic, answer.partition)
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code), f"finding the end of an epoch in {target}")
            found[target] = EpochEnd(answer.leader_epoch, answer.end_offset)
    return found
