"""Metadata: the brokers and the leaders of partitions; it also creates topics on first use."""

from uuid import UUID

from tailrace.base.limits import PARTITIONS_PER_REQUEST_MAX
from tailrace.base.topic_name import INTERNAL_TOPICS, topic_name_problem
from tailrace.machines.controller.image import Topic
from tailrace.machines.controller.topic import NewTopic
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.primitive import OPERATIONS_UNASKED
from tailrace.server.api import api
from tailrace.server.context import (
    CLUSTER_NAME,
    TOPIC_OPERATIONS,
    Operation,
    RequestContext,
    Resource,
)
from tailrace.server.handlers.cluster import allowed_cluster_operations
from tailrace.server.partition_view import view

_NO_ID = UUID(int=0)
_UNSEEN = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_REQUEST)
"""The errors of a topic that the client may not see, or that has no name."""


def fail(ctx: RequestContext, request: MetadataRequest, error: ApiError) -> MetadataResponse:
    response = _cluster(ctx)
    response.error_code = error.code
    response.topics = [
        MetadataResponseTopic(error_code=error.code, name=asked.name or "", topic_id=asked.topic_id)
        for asked in request.topics or ()
    ]
    return response


@api(MetadataRequest, versions=(0, 13), fail=fail)
async def metadata(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe the cluster and the topics of the request."""
    response = _cluster(ctx)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = allowed_cluster_operations(ctx)
    everything = request.topics is None or (ctx.version == 0 and not request.topics)
    if everything:
        topics = [
            _describe(ctx, topic)
            for name, topic in sorted(ctx.broker.image.topics.items())
            if ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name, is_probe=True)
        ]
    else:
        distinct = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
        topics = [await _answer(ctx, request, asked) for asked in distinct.values()]
    if request.include_topic_authorized_operations:
        for described in topics:
            if described.error_code not in _UNSEEN:
                described.topic_authorized_operations = ctx.allowed_operations(
                    TOPIC_OPERATIONS, Resource.TOPIC, described.name or ""
                )
    response.topics = topics
    return response


def _cluster(ctx: RequestContext) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in ctx.nodes
        ],
        cluster_id=ctx.broker.cluster_id,
        controller_id=ctx.broker.image.controller_id,
    )


async def _answer(ctx: RequestContext, request: MetadataRequest, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    try:
        if asked.name is None or asked.topic_id != _NO_ID:
            topic = _by_id(ctx, asked.topic_id)
        else:
            topic = await _by_name(ctx, request, asked.name)
    except ApiError as error:
        # Before version 12 a reply without a name cannot be decoded.
        name = asked.name if ctx.version >= 12 else asked.name or ""
        return MetadataResponseTopic(error_code=error.code, name=name, topic_id=asked.topic_id)
    return _describe(ctx, topic)


def _by_id(ctx: RequestContext, topic_id: UUID) -> Topic:
    if ctx.version < 12 or topic_id == _NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "finding a topic by its id needs version 12 of Metadata")
    topic = ctx.broker.image.topics_by_id.get(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic.name):
        # Unlike the name, the id of a topic is no secret in Kafka, so the client may learn that there is a topic.
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


async def _by_name(ctx: RequestContext, request: MetadataRequest, name: str) -> Topic:
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic := ctx.broker.image.topics.get(name):
        return topic
    may_create = request.allow_auto_topic_creation and ctx.broker.config.auto_create_topics_enable
    if may_create and not (
        ctx.is_allowed(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, is_probe=True)
        or ctx.is_allowed(Operation.CREATE, Resource.TOPIC, name)
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if problem := topic_name_problem(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if not may_create:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if len(request.topics or ()) * ctx.broker.config.num_partitions > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION, f"one request may create at most {PARTITIONS_PER_REQUEST_MAX} partitions"
        )
    return await _create(ctx, name)


async def _create(ctx: RequestContext, name: str) -> Topic:
    try:
        topic = await ctx.broker.controller_channel.create_topic(NewTopic(name))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            ctx.note_created(name, error.code)
            raise
        if (found := ctx.broker.image.topics.get(name)) is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, error.message) from None  # another request changes it now
        return found  # another client created it first
    ctx.note_created(name, ErrorCode.NONE)
    return topic


def _describe(ctx: RequestContext, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(ctx, topic, index) for index in range(topic.partition_count)],
        topic_authorized_operations=OPERATIONS_UNASKED,
    )


def _partition(ctx: RequestContext, topic: Topic, index: int) -> MetadataResponsePartition:
    state, leader_id, offline, error_code = view(ctx, topic, index)
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(topic.assignment[index]),
        isr_nodes=list(state.isr),
        offline_replicas=offline,
    )
