"""TxnOffsetCommit: offsets of a group that take effect when a transaction commits."""

from collections.abc import Mapping

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.runtime.transaction.guard import TransactionGuard
from tailrace.server.api import api
from tailrace.server.commit_topic import CommitTopic, find_commit_topic
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.group_caller import ask_coordinator, caller_of, check_group, refuse_if_abandoned

_FIRST_VERSION_WITH_TOPIC_IDS = 6  # KIP-1319
_FIRST_VERSION_THAT_ADDS = 5  # the first commit adds the group's offsets to the transaction (KIP-890)
_FIRST_VERSION_WITH_ABORTABLE = 4
_FIRST_VERSION_THAT_KNOWS_LOADING = 2


def fail(ctx: RequestContext, request: TxnOffsetCommitRequest, error: ApiError) -> TxnOffsetCommitResponse:
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.version < _FIRST_VERSION_THAT_KNOWS_LOADING:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # older producers crash upon the other (KAFKA-7296)
    topics = [
        _outcome(topic, {partition.partition_index: code for partition in topic.partitions}) for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


@api(TxnOffsetCommitRequest, versions=(0, 6), fail=fail)
async def txn_offset_commit(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Store the offsets of partitions that exist; refuse each of the others separately."""
    if not ctx.is_allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    check_group(ctx, Operation.READ, request.group_id)
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    places = [_find(ctx, topic) for topic in request.topics]
    parts = [_known_part(topic, place) for topic, place in zip(request.topics, places, strict=True)]
    known = [part for part in parts if part.partitions]
    outcomes = iter((await _commit(ctx, request, known)).topics if known else [])
    topics = []
    for topic, place, part in zip(request.topics, places, parts, strict=True):
        codes: dict[int, int] = dict(place.refused)
        if part.partitions:
            codes |= {partition.partition_index: partition.error_code for partition in next(outcomes).partitions}
        topics.append(_outcome(topic, codes))
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    ctx: RequestContext, request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]
) -> TxnOffsetCommitResponse:
    accepted = TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )
    caller = caller_of(ctx)
    try:
        refuse_if_abandoned(ctx)
        guard = await _guard(ctx, accepted)
        refuse_if_abandoned(ctx)  # the transaction's coordinator may have taken its time
        return await ask_coordinator(
            ctx,
            request.group_id,
            TxnOffsetCommitResponse,
            lambda machine, now_ms, answer: machine.decide_transactional_commit(now_ms, answer, caller, accepted),
            guard,
        )
    except ApiError as error:
        return fail(ctx, accepted, error)


async def _guard(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TransactionGuard | None:
    """Ask the transaction coordinator whether the group's offsets are in the transaction, or add them to it."""
    shard = ctx.broker.groups.shard(request.group_id)
    shard.check_loaded()
    try:
        return await ctx.broker.verification.guard(
            shard.partition,
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_adding=ctx.version >= _FIRST_VERSION_THAT_ADDS,
            knows_abortable=ctx.version >= _FIRST_VERSION_WITH_ABORTABLE,
        )
    except ApiError as error:
        if error.code is not ErrorCode.NETWORK_EXCEPTION:
            raise
        # Older producers know this code and retry.
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error


def _find(ctx: RequestContext, topic: TxnOffsetCommitRequestTopic) -> CommitTopic:
    indexes = [partition.partition_index for partition in topic.partitions]
    by_id = ctx.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    return find_commit_topic(ctx, topic.name, topic.topic_id, indexes, by_id=by_id)


def _known_part(topic: TxnOffsetCommitRequestTopic, place: CommitTopic) -> TxnOffsetCommitRequestTopic:
    """Return the partitions that exist, by the name and id of their topic."""
    partitions = [partition for partition in topic.partitions if partition.partition_index not in place.refused]
    return TxnOffsetCommitRequestTopic(name=place.name, topic_id=place.topic_id, partitions=partitions)


def _outcome(topic: TxnOffsetCommitRequestTopic, codes: Mapping[int, int]) -> TxnOffsetCommitResponseTopic:
    outcomes = [
        TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in codes.items()
    ]
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes)
