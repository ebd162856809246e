"""DeleteRecords: let the oldest records of a partition go, on all of its replicas."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from runnel.base.topic_name import INTERNAL_TOPICS
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.offset import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponse,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from runnel.runtime.commit_wait import CommitEnd
from runnel.runtime.partition import Partition
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


class Deletion(NamedTuple):
    """What became of one partition, and what is still waited for."""

    reply: DeleteRecordsResponsePartition
    partition: Partition | None = None
    end: CommitEnd | None = None


@api(DeleteRecordsRequest, versions=(0, 2), fail=fail)
async def delete_records(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move the log start of each partition, and wait until the followers have moved theirs."""
    deletions = [
        (topic.name, [_delete(ctx, topic.name, asked) for asked in topic.partitions]) for topic in request.topics
    ]
    # Unlike Kafka, which may bring deleted records back after a crash within the next minute.
    await ctx.broker.care.checkpoint()
    await _wait([deletion for _, found in deletions for deletion in found], request.timeout_ms)
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponseTopic(name=name, partitions=[deletion.reply for deletion in found])
            for name, found in deletions
        ]
    )


def _delete(ctx: RequestContext, topic: str, asked: DeleteRecordsRequestPartition) -> Deletion:
    reply = DeleteRecordsResponsePartition(partition_index=asked.partition_index, low_watermark=_NO_WATERMARK)
    try:
        if not ctx.is_allowed(Operation.DELETE, Resource.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"records of {topic} cannot be deleted")
        partition = ctx.broker.replicas.get(topic, asked.partition_index)
        if "delete" not in partition.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy does not allow deletion")
        offset = partition.delete_records(asked.offset)
        reply.low_watermark = partition.low_watermark
        leadership = partition.leadership
        return Deletion(reply, partition, None if leadership is None else leadership.when_deleted(offset))
    except ApiError as error:
        reply.error_code = error.code
    except StorageError:
        reply.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return Deletion(reply)


async def _wait(deletions: Sequence[Deletion], timeout_ms: int) -> None:
    """Wait for all replicas that live, for as long as the client does."""
    if not (ends := [deletion.end for deletion in deletions if deletion.end is not None]):
        return
    await asyncio.wait(ends, timeout=max(timeout_ms, 0) / 1000)
    for reply, partition, end in deletions:
        if end is None or partition is None:
            continue
        if not end.done():
            end.cancel()
            reply.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif (code := end.result()) is not None:
            reply.error_code, reply.low_watermark = code, _NO_WATERMARK
        else:
            reply.low_watermark = partition.low_watermark
