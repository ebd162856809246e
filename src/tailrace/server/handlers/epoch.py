"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a consumer or follower finds where logs diverge."""

from tailrace.machines.replica.epoch import end_of_epoch
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource


def fail(
    ctx: RequestContext,
    request: OffsetForLeaderEpochRequest,
    error: ApiError,
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponsePartition(partition=asked.partition, error_code=error.code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(OffsetForLeaderEpochRequest, versions=(2, 4), fail=fail)
async def offset_for_leader_epoch(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer for each partition separately."""
    is_broker = ctx.is_allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, is_probe=True)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic, partitions=_look_up_all(ctx, topic, is_broker=is_broker)
            )
            for topic in request.topics
        ]
    )


def _look_up_all(
    ctx: RequestContext, topic: OffsetForLeaderEpochRequestTopic, *, is_broker: bool
) -> list[OffsetForLeaderEpochResponsePartition]:
    if is_broker or ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic.topic):
        return [_look_up(ctx, topic.topic, asked) for asked in topic.partitions]
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetForLeaderEpochResponsePartition(partition=asked.partition, error_code=code) for asked in topic.partitions
    ]


def _look_up(
    ctx: RequestContext, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    reply = OffsetForLeaderEpochResponsePartition(partition=asked.partition)
    try:
        partition = ctx.broker.replicas.get(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        end = end_of_epoch(partition.log, partition.leader_epoch, asked.leader_epoch)
        reply.leader_epoch, reply.end_offset = end
    except ApiError as error:
        reply.error_code = error.code
    return reply
