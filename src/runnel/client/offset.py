"""Finding offsets: where a log starts and ends, and where a time begins in it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from runnel.client.cluster import Cluster
from runnel.client.error import BrokerUnavailable
from runnel.client.isolation import Isolation
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
NOT_FOUND = -1


class OffsetAt(NamedTuple):
    """An offset and the timestamp of its record; both -1 when no record is as young as the one asked for."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    cluster: Cluster,
    topic: str,
    timestamps: Mapping[int, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[int, OffsetAt]:
    """The first offset at or after a time in each partition; EARLIEST, LATEST and MAX_TIMESTAMP stand for times."""
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
    """The offset where a time begins in each partition: the end of the log where no record is as young."""
    found = await list_offsets(cluster, topic, timestamps, isolation)
    ended = [partition for partition, at in found.items() if at.offset == NOT_FOUND]
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
