"""CreateTopics, DeleteTopics and CreatePartitions."""

import asyncio
from collections import Counter
from uuid import UUID

from tailrace.base.limits import PARTITIONS_PER_REQUEST_MAX
from tailrace.config.error import ConfigError
from tailrace.config.topic import TopicConfig, validate_topic_overrides
from tailrace.machines.controller.topic import DEFAULT, NewTopic, check_new_name
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.topic import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
    CreatePartitionsResponseTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
    CreateTopicsResponseConfig,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
)
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

_NO_ID = UUID(int=0)
_ABSENT = "This server does not host this topic-partition."


# --- CreateTopics


def fail_create(ctx: RequestContext, request: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_not_created(topic.name, error) for topic in request.topics])


@api(CreateTopicsRequest, versions=(2, 7), fail=fail_create, is_controllers=True)
async def create_topics(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create each topic separately; refuse a name that the request holds twice."""
    _check_size(ctx, request)
    names = Counter(topic.name for topic in request.topics)
    response = CreateTopicsResponse()
    for asked in {topic.name: topic for topic in request.topics}.values():
        await asyncio.sleep(0)  # a refusal waits for nothing, and a request may name thousands
        try:
            if names[asked.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            response.topics.append(await _create(ctx, asked, request.validate_only))
        except ApiError as error:
            response.topics.append(_not_created(asked.name, error))
    return response


def _check_size(ctx: RequestContext, request: CreateTopicsRequest) -> None:
    # A topic of no partitions is refused, but its check counts, too.
    if sum(max(1, _partition_count(ctx, asked)) for asked in request.topics) > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"one request may create at most {PARTITIONS_PER_REQUEST_MAX} partitions"
        )


def _partition_count(ctx: RequestContext, asked: CreateTopicsRequestTopic) -> int:
    default = ctx.broker.topic_defaults.partition_count
    return max(0, len(asked.assignments) or (default if asked.num_partitions == DEFAULT else asked.num_partitions))


async def _create(
    ctx: RequestContext, asked: CreateTopicsRequestTopic, validate_only: bool
) -> CreateTopicsResponseTopic:
    if not (
        ctx.is_allowed(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, is_probe=True)
        or ctx.is_allowed(Operation.CREATE, Resource.TOPIC, asked.name)
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_new_name(ctx.broker.image, asked.name)
    new = NewTopic(
        asked.name, asked.num_partitions, asked.replication_factor, _assignment(asked), _checked_configs(ctx, asked)
    )
    if not validate_only:
        ctx.take_mutations(_partition_count(ctx, asked), strict_since=6)
    topic = await ctx.broker.controller.create_topic(new, ctx.broker.topic_defaults, validate_only=validate_only)
    if not ctx.is_allowed(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, asked.name, is_probe=True):
        # The topic is created, but its configs and its size are hidden (KIP-525).
        return CreateTopicsResponseTopic(
            name=asked.name,
            topic_id=topic.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    config = TopicConfig.resolve(new.configs or {}, ctx.broker.config)
    return CreateTopicsResponseTopic(
        name=asked.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=len(topic.assignment[0]),
        configs=[
            CreateTopicsResponseConfig(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in config.entries()
        ],
    )


def _assignment(asked: CreateTopicsRequestTopic) -> dict[int, list[int]] | None:
    assignment = {given.partition_index: given.broker_ids for given in asked.assignments}
    if len(assignment) != len(asked.assignments):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the assignment names a partition twice")
    return assignment or None


def _checked_configs(ctx: RequestContext, asked: CreateTopicsRequestTopic) -> dict[str, str]:
    configs = {config.name: config.value for config in asked.configs}
    try:
        validate_topic_overrides(configs, ctx.broker.config)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return {name: value for name, value in configs.items() if value is not None}


def _not_created(name: str, error: ApiError) -> CreateTopicsResponseTopic:
    return CreateTopicsResponseTopic(name=name, error_code=error.code, error_message=error.message, configs=[])


# --- DeleteTopics


def fail_delete(ctx: RequestContext, request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_not_deleted(asked, error) for asked in _to_delete(ctx, request)])


@api(DeleteTopicsRequest, versions=(1, 6), fail=fail_delete, is_controllers=True)
async def delete_topics(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete each topic separately."""
    if not ctx.broker.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if ctx.version >= 3 else ErrorCode.INVALID_REQUEST
        raise ApiError(code, "delete.topic.enable is false")
    asked_topics = _to_delete(ctx, request)
    times = Counter((asked.name, asked.topic_id) for asked in asked_topics)
    response = DeleteTopicsResponse()
    for asked in {(asked.name, asked.topic_id): asked for asked in asked_topics}.values():
        await asyncio.sleep(0)
        try:
            if times[asked.name, asked.topic_id] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
            response.responses.append(await _delete(ctx, asked))
        except ApiError as error:
            response.responses.append(_not_deleted(asked, error))
    return response


def _to_delete(ctx: RequestContext, request: DeleteTopicsRequest) -> list[DeleteTopicsRequestTopic]:
    if ctx.version >= 6:
        return request.topics
    return [DeleteTopicsRequestTopic(name=name) for name in request.topic_names]


async def _delete(ctx: RequestContext, asked: DeleteTopicsRequestTopic) -> DeleteTopicsResponseTopic:
    image = ctx.broker.image
    if asked.name is not None and asked.topic_id != _NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if asked.name is None and asked.topic_id == _NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if asked.name is None:
        topic = image.topics_by_id.get(asked.topic_id)
        absent = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = image.topics.get(asked.name)
        absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = asked.name if topic is None else topic.name
    if name is None:
        raise ApiError(absent, _ABSENT)
    may_see, may_delete = _rights(ctx, name)
    if topic is None:
        raise ApiError(absent, _ABSENT) if may_see else ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not may_delete or (asked.name is not None and not may_see):
        shown = DeleteTopicsRequestTopic(name=name if may_see else asked.name, topic_id=asked.topic_id)
        return _not_deleted(shown, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    ctx.take_mutations(topic.partition_count, strict_since=5)
    await ctx.broker.controller.delete_topic(topic.name)
    return DeleteTopicsResponseTopic(name=topic.name, topic_id=topic.topic_id)


def _rights(ctx: RequestContext, name: str) -> tuple[bool, bool]:
    """Return whether the client may see a topic, and whether it may delete it.

    The cluster has no operation DELETE, but as in Kafka an ACL for all operations on the cluster has it. DELETE on the
    topic implies that the client may see it, unless an ACL denies that.
    """
    if ctx.is_allowed(Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME, is_probe=True):
        return True, True
    return ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name), ctx.is_allowed(
        Operation.DELETE, Resource.TOPIC, name
    )


def _not_deleted(asked: DeleteTopicsRequestTopic, error: ApiError) -> DeleteTopicsResponseTopic:
    return DeleteTopicsResponseTopic(
        name=asked.name, topic_id=asked.topic_id, error_code=error.code, error_message=error.message
    )


# --- CreatePartitions


def fail_partitions(
    ctx: RequestContext,
    request: CreatePartitionsRequest,
    error: ApiError,
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_not_grown(asked, error) for asked in request.topics])


@api(CreatePartitionsRequest, versions=(0, 3), fail=fail_partitions, is_controllers=True)
async def create_partitions(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to each topic separately."""
    names = Counter(topic.name for topic in request.topics)
    response = CreatePartitionsResponse()
    for asked in {topic.name: topic for topic in request.topics}.values():
        await asyncio.sleep(0)
        try:
            if names[asked.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if not ctx.is_allowed(Operation.ALTER, Resource.TOPIC, asked.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic = ctx.broker.image.topics.get(asked.name)
            if topic is not None and not request.validate_only:
                ctx.take_mutations(max(0, asked.count - topic.partition_count), strict_since=3)
            placed = None if asked.assignments is None else [given.broker_ids for given in asked.assignments]
            await ctx.broker.controller.add_partitions(
                asked.name, asked.count, placed, validate_only=request.validate_only
            )
            response.results.append(CreatePartitionsResponseTopic(name=asked.name))
        except ApiError as error:
            response.results.append(_not_grown(asked, error))
    return response


def _not_grown(asked: CreatePartitionsRequestTopic, error: ApiError) -> CreatePartitionsResponseTopic:
    return CreatePartitionsResponseTopic(name=asked.name, error_code=error.code, error_message=error.message)
