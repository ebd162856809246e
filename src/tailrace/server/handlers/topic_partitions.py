"""DescribeTopicPartitions: topics in pages, for clusters whose metadata does not fit into one reply."""

from tailrace.base.topic_name import INTERNAL_TOPICS, topic_name_problem
from tailrace.machines.controller.image import Topic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.topic import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tailrace.server.api import api
from tailrace.server.context import TOPIC_OPERATIONS, Operation, RequestContext, Resource
from tailrace.server.partition_view import view


def fail(
    ctx: RequestContext,
    request: DescribeTopicPartitionsRequest,
    error: ApiError,
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=error.code) for topic in request.topics
        ]
    )


@api(DescribeTopicPartitionsRequest, versions=(0, 0), fail=fail)
async def describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page of partitions in the order of topic names, starting at the cursor."""
    image = ctx.broker.image
    asked = sorted({topic.name for topic in request.topics} or image.topics)
    first = request.cursor
    if first is not None:
        _check_cursor(request, first)
        asked = [name for name in asked if name >= first.topic_name]
    # An empty page would repeat for ever; Kafka returns at least one partition too.
    left = max(1, min(request.response_partition_limit, ctx.broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in asked:
        if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name, is_probe=not request.topics):
            if request.topics:
                response.topics.append(_refusal(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        topic = image.topics.get(name)
        if topic is None:
            absent = _refusal(name, _absence(name))
            absent.topic_authorized_operations = ctx.allowed_operations(TOPIC_OPERATIONS, Resource.TOPIC, name)
            response.topics.append(absent)
            continue
        start = first.partition_index if first is not None and first.topic_name == name else 0
        if left <= 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=start)
            break
        end = min(topic.partition_count, start + left)
        response.topics.append(_describe(ctx, topic, range(start, end)))
        left -= max(0, end - start)
        if end < topic.partition_count:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=end)
            break
    return response


def _check_cursor(request: DescribeTopicPartitionsRequest, cursor: DescribeTopicPartitionsRequestCursor) -> None:
    if cursor.partition_index < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the cursor points to partition {cursor.partition_index}")
    if request.topics and all(topic.name != cursor.topic_name for topic in request.topics):
        raise ApiError(ErrorCode.INVALID_REQUEST, "the cursor names a topic that the request does not ask for")


def _absence(name: str) -> ErrorCode:
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_problem(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refusal(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code)


def _describe(ctx: RequestContext, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(ctx, topic, index) for index in indexes],
        topic_authorized_operations=ctx.allowed_operations(TOPIC_OPERATIONS, Resource.TOPIC, topic.name),
    )


def _partition(ctx: RequestContext, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    state, leader_id, offline, error_code = view(ctx, topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(topic.assignment[index]),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=offline,
    )
