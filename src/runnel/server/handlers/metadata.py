"""Metadata: the brokers, and who leads which partition; creates topics that clients name first."""

from uuid import UUID

from runnel.base.limits import PARTITIONS_PER_REQUEST_MAX
from runnel.base.topic_name import INTERNAL_TOPICS, topic_name_problem
from runnel.machines.controller.image import Topic
from runnel.machines.controller.topic import NewTopic
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from runnel.protocol.primitive import OPERATIONS_UNASKED
from runnel.server.api import api
from runnel.server.context import (
    CLUSTER_NAME,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Operation,
    RequestContext,
    Resource,
)
from runnel.server.partition_view import view

_NO_ID = UUID(int=0)


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
    """Describe the cluster and the topics that were asked for."""
    response = _cluster(ctx)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ctx.allowed_operations(
            CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME
        )
    everything = request.topics is None or (ctx.version == 0 and not request.topics)
    if everything:
        topics = [
            _describe(ctx, topic)
            for name, topic in sorted(ctx.broker.image.topics.items())
            if ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name)
        ]
    else:
        distinct = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
        topics = [await _answer(ctx, request, asked) for asked in distinct.values()]
    if request.include_topic_authorized_operations:
        for described in topics:
            if described.error_code == 0:
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
        # A nameless reply would not decode before version 12.
        name = asked.name if ctx.version >= 12 else asked.name or ""
        return MetadataResponseTopic(error_code=error.code, name=name, topic_id=asked.topic_id)
    return _describe(ctx, topic)


def _by_id(ctx: RequestContext, topic_id: UUID) -> Topic:
    if ctx.version < 12 or topic_id == _NO_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "topics can be asked for by id from version 12 on")
    topic = ctx.broker.image.topics_by_id.get(topic_id)
    if topic is None or not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic.name):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


async def _by_name(ctx: RequestContext, request: MetadataRequest, name: str) -> Topic:
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic := ctx.broker.image.topics.get(name):
        return topic
    if problem := topic_name_problem(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if not (request.allow_auto_topic_creation and ctx.broker.config.auto_create_topics_enable):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if len(request.topics or ()) * ctx.broker.config.num_partitions > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "too many topics to be created by one request")
    if not ctx.is_allowed(Operation.CREATE, Resource.TOPIC, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return await _create(ctx, name)


async def _create(ctx: RequestContext, name: str) -> Topic:
    try:
        return await ctx.broker.controller_channel.create_topic(NewTopic(name))
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        if (topic := ctx.broker.image.topics.get(name)) is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, error.message) from None  # somebody just makes or removes it
        return topic  # another client was faster


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
