"""DescribeLogDirs: the data folders, what is in them and how full their disks are."""

import shutil

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)
from runnel.server.api import api
from runnel.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from runnel.storage.log_dir import LogDir


def fail(ctx: RequestContext, request: DescribeLogDirsRequest, error: ApiError) -> DescribeLogDirsResponse:  # noqa: ARG001
    return DescribeLogDirsResponse(error_code=error.code)


@api(DescribeLogDirsRequest, versions=(1, 5), fail=fail)
async def describe_log_dirs(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every folder, with the partitions that were asked for."""
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeLogDirsResponse(results=[_describe(log_dir, wanted) for log_dir in ctx.broker.log_dirs])


def _describe(log_dir: LogDir, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResponseResult:
    if log_dir.is_offline:
        return DescribeLogDirsResponseResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path)
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for (topic, index), storage in sorted(log_dir.logs.items(), key=lambda item: item[0]):
        if wanted is not None and (topic, index) not in wanted:
            continue
        reply = topics.setdefault(topic, DescribeLogDirsResponseTopic(name=topic))
        reply.partitions.append(
            DescribeLogDirsResponsePartition(partition_index=index, partition_size=storage.size_bytes, offset_lag=0)
        )
    total_bytes, usable_bytes = _space(log_dir.path)
    return DescribeLogDirsResponseResult(
        log_dir=log_dir.path, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes
    )


def _space(path: str) -> tuple[int, int]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return -1, -1
    return usage.total, usage.free
