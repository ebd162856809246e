"""Requests for the start and the end of a log, and for offsets by timestamp, recorded in the history."""

from tailrace.client.cluster import Cluster
from tailrace.client.offset import OffsetAt
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from tailrace.sim.workload import FAILURES
from tailrace.sim.world import World


async def look_up(
    world: World, cluster: Cluster, name: str, target: TopicPartition, timestamp_ms: int, *, is_final: bool = False
) -> OffsetAt:
    """Ask the leader of an epoch for an offset; EARLIEST and the like count as timestamps."""
    leader_id = await cluster.leader_id(*target)
    leader_epoch = cluster.view.topics[target.topic].leader_epoch(target.partition)
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequestTopic(
                name=target.topic,
                partitions=[
                    ListOffsetsRequestPartition(
                        partition_index=target.partition, current_leader_epoch=leader_epoch, timestamp=timestamp_ms
                    )
                ],
            )
        ],
    )
    operation = world.recorder.invoke(
        name,
        "lookup",
        partition=str(target),
        timestamp_ms=timestamp_ms,
        leader_epoch=leader_epoch,
        final=is_final,
    )
    try:
        reply = await cluster.request(leader_id, request, ListOffsetsResponse)
        answer = reply.topics[0].partitions[0]
        if answer.error_code:
            raise ApiError(ErrorCode(answer.error_code), f"finding an offset in {target}")
    except FAILURES as error:
        operation.unknown(error)
        cluster.forget(target.topic)
        raise
    operation.ok(offset=answer.offset, found_ms=answer.timestamp)
    return OffsetAt(answer.offset, answer.timestamp)
