"""DeleteRecords: the deletion of the oldest records of a partition, on all of its replicas."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tailrace.base.sentinel import NO_OFFSET
from tailrace.base.topic_name import INTERNAL_TOPICS
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from tailrace.runtime.offset_wait import OffsetReached
from tailrace.runtime.partition import Partition
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.storage.error import StorageError


def fail(ctx: RequestContext, request: DeleteRecordsRequest, error: ApiError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(
                name=topic.name,
                partitions=[
                    DeleteRecordsResponsePartition(
                        partition_index=asked.partition_index, low_watermark=NO_OFFSET, error_code=error.code
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


class Deletion(NamedTuple):
    """The reply for one partition, up to where its records are deleted, and the wait for its followers, if any."""

    reply: DeleteRecordsResponsePartition
    partition: Partition | None = None
    offset: int = NO_OFFSET
    end: OffsetReached | None = None


@api(DeleteRecordsRequest, versions=(0, 2), fail=fail)
async def delete_records(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Advance the log start offset of each partition, and wait until the followers have done so.

    Each replica checkpoints the log start before it counts. In Kafka, deleted records may return after a crash within
    the next minute.
    """
    deletions = [
        (topic.name, [_delete(ctx, topic.name, asked) for asked in topic.partitions]) for topic in request.topics
    ]
    await ctx.broker.care.checkpoint()
    waiting = [deletion for _, found in deletions for deletion in found if _is_durable(deletion)]
    await _wait(waiting, request.timeout_ms)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(name=name, partitions=[deletion.reply for deletion in found])
            for name, found in deletions
        ]
    )


def _delete(ctx: RequestContext, topic: str, asked: DeleteRecordsRequestPartition) -> Deletion:
    reply = DeleteRecordsResponsePartition(partition_index=asked.partition_index, low_watermark=NO_OFFSET)
    try:
        if not ctx.is_allowed(Operation.DELETE, Resource.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
        partition = ctx.broker.replicas.get(topic, asked.partition_index)
        if partition.config.cleanup_policy == ("compact",):
            raise ApiError(ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted cannot be deleted")
        offset = partition.delete_records(asked.offset)
        leadership = partition.leadership
        return Deletion(reply, partition, offset, None if leadership is None else leadership.when_deleted(offset))
    except ApiError as error:
        reply.error_code = error.code
    except StorageError:
        reply.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return Deletion(reply)


def _is_durable(deletion: Deletion) -> bool:
    """Take in the checkpoint of this broker; without it the deletion fails, because a crash would undo it."""
    reply, partition, offset, end = deletion
    if partition is None:
        return False
    try:
        partition.confirm_deletion(offset)
        reply.low_watermark = partition.low_watermark
    except ApiError as error:
        reply.error_code = error.code
        if end is not None:
            end.cancel()
        return False
    return True


async def _wait(deletions: Sequence[Deletion], timeout_ms: int) -> None:
    """Wait for all live and all electable replicas, at most for the timeout of the request."""
    if not (ends := [deletion.end for deletion in deletions if deletion.end is not None]):
        return
    await asyncio.wait(ends, timeout=max(timeout_ms, 0) / 1000)
    for reply, partition, _, end in deletions:
        if end is None or partition is None:
            continue
        if not end.done():
            end.cancel()
            reply.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif (code := end.result()) is not None:
            reply.error_code, reply.low_watermark = code, NO_OFFSET
        else:
            reply.low_watermark = partition.low_watermark
