"""Requests for offsets: the start and the end of a log, and the first record at or after a time."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.base.sentinel import NO_OFFSET
from tailrace.client.cluster import Cluster
from tailrace.client.error import BrokerUnavailable
from tailrace.client.fetch.isolation import Isolation
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


class OffsetAt(NamedTuple):
    """An offset and the timestamp of its record; both -1 if no record is that recent."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    cluster: Cluster,
    topic: str,
    timestamps: Mapping[int, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, OffsetAt]:
    """Return the first offset at or after a time in each partition; EARLIEST and the like count as times."""
    found: dict[int, OffsetAt] = {}

    async def ask() -> dict[int, OffsetAt]:
        by_leader: dict[int, list[int]] = defaultdict(list)
        for partition in timestamps.keys() - found.keys():
            by_leader[await cluster.leader_id(topic, partition)].append(partition)
        for leader_id, partitions in by_leader.items():
            wanted = {partition: timestamps[partition] for partition in partitions}
            try:
                found.update(await _ask_leader(cluster, leader_id, topic, wanted, isolation))
            except (ApiError, BrokerUnavailable):
                cluster.forget(topic)
                raise
        return found

    return await cluster.retry(ask, timeout_ms=cluster.request_timeout_ms)


async def find_offsets(
    cluster: Cluster,
    topic: str,
    timestamps: Mapping[int, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, int]:
    """Return the first offset at or after a time in each partition; the end if no record is that recent."""
    found = await list_offsets(cluster, topic, timestamps, isolation)
    ended = [partition for partition, at in found.items() if at.offset == NO_OFFSET]
    if ended:
        found |= await list_offsets(cluster, topic, dict.fromkeys(ended, LATEST), isolation)
    return {partition: at.offset for partition, at in found.items()}


async def _ask_leader(
    cluster: Cluster, leader_id: int, topic: str, timestamps: Mapping[int, int], isolation: Isolation
) -> dict[int, OffsetAt]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp)
                    for partition, timestamp in timestamps.items()
                ],
            )
        ],
        timeout_ms=cluster.request_timeout_ms,
    )
    reply = await cluster.request(leader_id, request, ListOffsetsResponse)
    found = {}
    for answer in (partition for item in reply.topics for partition in item.partitions):
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), f"finding an offset in {topic}-{answer.partition_index}")
        found[answer.partition_index] = OffsetAt(answer.offset, answer.timestamp)
    return found
