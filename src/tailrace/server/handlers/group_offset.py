"""OffsetCommit and OffsetDelete: the committed offsets of groups."""

from collections.abc import Iterable

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.server.api import api
from tailrace.server.commit_topic import find_commit_topic
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.group_caller import ask_coordinator, caller_of, check_group, refuse_if_abandoned

FIRST_VERSION_WITH_TOPIC_IDS = 10


# --- OffsetCommit


def fail_commit(ctx: RequestContext, request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    indexes = [[partition.partition_index for partition in topic.partitions] for topic in request.topics]
    topics = [_uncommitted(topic, own, error.code) for topic, own in zip(request.topics, indexes, strict=True)]
    return OffsetCommitResponse(topics=topics)


def _uncommitted(topic: OffsetCommitRequestTopic, indexes: Iterable[int], code: ErrorCode) -> OffsetCommitResponseTopic:
    outcomes = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes)


@api(OffsetCommitRequest, versions=(2, 10), fail=fail_commit)
async def offset_commit(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit the offsets of partitions that exist; refuse each of the others separately."""
    check_group(ctx, Operation.READ, request.group_id)
    refused: list[OffsetCommitResponseTopic] = []
    topics = []
    for topic in request.topics:
        known = _known_part(ctx, topic, refused)
        if known is not None:
            topics.append(known)
    if not topics:
        return OffsetCommitResponse(topics=refused)
    accepted = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=topics,
    )
    caller = caller_of(ctx)
    try:
        refuse_if_abandoned(ctx)
        response = await ask_coordinator(
            ctx,
            request.group_id,
            OffsetCommitResponse,
            lambda machine, now_ms, answer: machine.decide_commit(now_ms, answer, caller, accepted),
        )
    except ApiError as error:
        response = fail_commit(ctx, accepted, error)
    return OffsetCommitResponse(topics=_merge(refused, response.topics))


def _known_part(
    ctx: RequestContext, topic: OffsetCommitRequestTopic, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitRequestTopic | None:
    """Return the partitions that exist, by name and id of the topic; add the errors of the others to `refused`."""
    indexes = [partition.partition_index for partition in topic.partitions]
    by_id = ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS
    found = find_commit_topic(ctx, topic.name, topic.topic_id, indexes, by_id=by_id)
    if found.refused:
        outcomes = [
            OffsetCommitResponsePartition(partition_index=index, error_code=code)
            for index, code in found.refused.items()
        ]
        refused.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=outcomes))
    partitions = [partition for partition in topic.partitions if partition.partition_index not in found.refused]
    if not partitions:
        return None
    return OffsetCommitRequestTopic(name=found.name, topic_id=found.topic_id, partitions=partitions)


def _merge(
    refused: list[OffsetCommitResponseTopic], outcomes: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Merge the outcomes of each topic."""
    merged = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in outcomes:
        # Refused partitions have only the name or the id that the request used.
        for key in ((topic.name, ZERO_UUID), ("", topic.topic_id)):
            if key in merged:
                merged[key].partitions.extend(topic.partitions)
                break
        else:
            merged[topic.name, topic.topic_id] = topic
    return list(merged.values())


# --- OffsetDelete


def fail_delete(ctx: RequestContext, request: OffsetDeleteRequest, error: ApiError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code)


@api(OffsetDeleteRequest, versions=(0, 0), fail=fail_delete)
async def offset_delete(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete offsets of topics to which the group is not subscribed."""
    check_group(ctx, Operation.DELETE, request.group_id)
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    refused: list[OffsetDeleteResponseTopic] = []
    known = [part for topic in request.topics if (part := _deletable_part(ctx, topic, refused)) is not None]
    accepted = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    refuse_if_abandoned(ctx)
    response = await ask_coordinator(
        ctx,
        request.group_id,
        OffsetDeleteResponse,
        lambda machine, _, answer: machine.decide_offset_delete(answer, accepted),
    )
    merged = {topic.name: topic for topic in refused}
    for topic in response.topics:
        merged.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name)).partitions.extend(topic.partitions)
    response.topics = list(merged.values())
    return response


def _deletable_part(
    ctx: RequestContext, topic: OffsetDeleteRequestTopic, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteRequestTopic | None:
    known = ctx.broker.image.topics.get(topic.name)
    count = 0 if known is None else known.partition_count
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not ctx.is_allowed(Operation.READ, Resource.TOPIC, topic.name):
        count, error = 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    missing = [partition for partition in topic.partitions if not 0 <= partition.partition_index < count]
    if missing:
        outcomes = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in missing
        ]
        refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=outcomes))
    partitions = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    return OffsetDeleteRequestTopic(name=topic.name, partitions=partitions) if partitions else None
