"""OffsetForLeaderEpoch: where an epoch of leadership ended, so that a reader can find where logs part."""

from runnel.machines.replica.epoch import end_of_epoch
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.offset import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from runnel.server.api import api
from runnel.server.context import Operation, RequestContext, Resource


def fail(
    ctx: RequestContext,  # noqa: ARG001
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
    """Answer for each partition on its own."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponseTopic(
                topic=topic.topic, partitions=[_look_up(ctx, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _look_up(
    ctx: RequestContext, topic: str, asked: OffsetForLeaderEpochRequestPartition
) -> OffsetForLeaderEpochResponsePartition:
    reply = OffsetForLeaderEpochResponsePartition(partition=asked.partition)
    try:
        if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = ctx.broker.replicas.get(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
        end = end_of_epoch(partition.log, partition.leader_epoch, asked.leader_epoch)
        reply.leader_epoch, reply.end_offset = end
    except ApiError as error:
        reply.error_code = error.code
    return reply
