"""DescribeLogDirs and AlterReplicaLogDirs: the log folders, what is in them and how full their disks are."""

import os
import shutil
from collections.abc import Callable

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.cluster import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponsePartition,
    DescribeLogDirsResponseResult,
    DescribeLogDirsResponseTopic,
)
from tailrace.protocol.messages.replica_log_dir import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource
from tailrace.storage.log_dir import LogDir


def fail_describe(ctx: RequestContext, request: DescribeLogDirsRequest, error: ApiError) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=error.code)


@api(DescribeLogDirsRequest, versions=(1, 5), fail=fail_describe)
async def describe_log_dirs(ctx: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every folder with the partitions that the request names."""
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return DescribeLogDirsResponse(results=[_describe(log_dir, wanted) for log_dir in ctx.broker.log_dirs])


def _describe(log_dir: LogDir, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResponseResult:
    path = _path(log_dir)
    if log_dir.is_offline:
        return DescribeLogDirsResponseResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, DescribeLogDirsResponseTopic] = {}
    for (topic, index), storage in sorted(log_dir.logs.items(), key=lambda item: item[0]):
        if wanted is not None and (topic, index) not in wanted:
            continue
        reply = topics.setdefault(topic, DescribeLogDirsResponseTopic(name=topic))
        reply.partitions.append(
            DescribeLogDirsResponsePartition(partition_index=index, partition_size=storage.size_bytes, offset_lag=0)
        )
    total_bytes, usable_bytes = _space(path)
    return DescribeLogDirsResponseResult(
        log_dir=path, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes
    )


def _path(log_dir: LogDir) -> str:
    # `log.dirs` may be relative to a folder that the client does not know.
    return os.path.abspath(log_dir.path)


def _space(path: str) -> tuple[int, int]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return -1, -1
    return usage.total, usage.free


# --- AlterReplicaLogDirs


def fail_alter(
    ctx: RequestContext, request: AlterReplicaLogDirsRequest, error: ApiError
) -> AlterReplicaLogDirsResponse:
    return _moved(request, lambda _path, _topic, _index: error.code)


@api(AlterReplicaLogDirsRequest, versions=(1, 2), fail=fail_alter, missing="replicas cannot move to another folder")
async def alter_replica_log_dirs(
    ctx: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Accept replicas that already are in the folder, and refuse to move the others."""
    if not ctx.is_allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    by_path = {_path(log_dir): log_dir for log_dir in ctx.broker.log_dirs}

    def outcome(path: str, topic: str, index: int) -> ErrorCode:
        if path not in by_path:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if by_path[path].is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if (topic, index) in by_path[path].logs:
            return ErrorCode.NONE
        is_elsewhere = any((topic, index) in log_dir.logs for log_dir in by_path.values())
        return ErrorCode.UNSUPPORTED_VERSION if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return _moved(request, outcome)


def _moved(
    request: AlterReplicaLogDirsRequest, outcome: Callable[[str, str, int], ErrorCode]
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponseTopic(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirsResponsePartition(
                        partition_index=index, error_code=outcome(folder.path, topic.name, index)
                    )
                    for index in topic.partitions
                ],
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    )
