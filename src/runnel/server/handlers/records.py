"""DeleteRecords: let the oldest records of a partition go."""

from runnel.base.topic_name import INTERNAL_TOPICS
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from runnel.server.api import api
from runnel.server.context import Operation, RequestContext, Resource
from runnel.storage.error import StorageError

_NO_WATERMARK = -1


def fail(ctx: RequestContext, request: DeleteRecordsRequest, error: ApiError) -> DeleteRecordsResponse:  # noqa: ARG001
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[
                    DeleteRecordsResponsePartition(
                        partition_index=asked.partition_index, low_watermark=_NO_WATERMARK, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@api(DeleteRecordsRequest, versions=(0, 2), fail=fail)
async def delete_records(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move the log start of each partition."""
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name, partitions=[_delete(ctx, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )
    # Unlike Kafka, which may bring deleted records back after a crash within the next minute.
    await ctx.broker.care.checkpoint()
    return response


def _delete(ctx: RequestContext, topic: str, asked: DeleteRecordsRequestPartition) -> DeleteRecordsResponsePartition:
    reply = DeleteRecordsResponsePartition(partition_index=asked.partition_index, low_watermark=_NO_WATERMARK)
    try:
        if not ctx.is_allowed(Operation.DELETE, Resource.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
        partition = ctx.broker.replicas.get(topic, asked.partition_index)
        if "delete" not in partition.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy does not allow deletion")
        reply.low_watermark = partition.delete_records(asked.offset)
    except ApiError as error:
        reply.error_code = error.code
    except StorageError:
        reply.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return reply
