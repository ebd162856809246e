"""OffsetFetch: the committed offsets of groups.

A request before version 8 names one group. It is converted to the newer form, and its reply is converted back.
"""

import asyncio

from tailrace.base.repetition import Repetitions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tailrace.protocol.primitive import ZERO_UUID
from tailrace.server.api import api
from tailrace.server.commit_topic import topic_name
from tailrace.server.context import Operation, RequestContext, Resource
from tailrace.server.group_caller import check_group
from tailrace.server.handlers.group_offset import FIRST_VERSION_WITH_TOPIC_IDS

_FIRST_BATCHED_VERSION = 8  # KIP-709
_FIRST_WITH_GROUP_ERROR = 2


def fail(ctx: RequestContext, request: OffsetFetchRequest, error: ApiError) -> OffsetFetchResponse:
    return _reply(ctx, [_refusal(ctx, group, error.code) for group in _groups(ctx, request)])


@api(OffsetFetchRequest, versions=(1, 10), fail=fail)
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Answer for each group separately."""
    groups = _answered(_groups(ctx, request))
    return _reply(ctx, [await _answer(ctx, group, request.require_stable) for group in groups])


def _answered(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Return the groups without the partitions that are repeated too often."""
    repetitions = Repetitions()
    return [group for group in groups if _is_answered(group, repetitions)]


def _is_answered(group: OffsetFetchRequestGroup, repetitions: Repetitions) -> bool:
    if group.topics is None:
        return repetitions.admits(group.group_id)
    for topic in group.topics:
        place = group.group_id, topic.name, topic.topic_id
        topic.partition_indexes = [index for index in topic.partition_indexes if repetitions.admits((*place, index))]
    return True


def _groups(ctx: RequestContext, request: OffsetFetchRequest) -> list[OffsetFetchRequestGroup]:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestGroupTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


async def _answer(
    ctx: RequestContext, asked: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    await asyncio.sleep(0)  # see `find_coordinator`
    try:
        check_group(ctx, Operation.DESCRIBE, asked.group_id)
        if asked.topics is None:
            found = _all(ctx, asked, require_stable)
        else:
            found = _some(ctx, asked, asked.topics, require_stable)
        # No client may see an offset that a new coordinator might not have.
        await ctx.broker.groups.acknowledged(asked.group_id)
        return found
    except ApiError as error:
        return _refusal(ctx, asked, error.code)


def _all(ctx: RequestContext, asked: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    found = ctx.broker.groups.machine(asked.group_id).fetch_offsets(asked, require_stable=require_stable)
    found.topics = [
        topic for topic in found.topics if ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic.name, is_probe=True)
    ]
    if ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in found.topics:
            known = ctx.broker.image.topics.get(topic.name)
            topic.topic_id = ZERO_UUID if known is None else known.topic_id
        found.topics = [topic for topic in found.topics if topic.topic_id != ZERO_UUID]
    return found


def _some(
    ctx: RequestContext,
    asked: OffsetFetchRequestGroup,
    topics: list[OffsetFetchRequestGroupTopic],
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    refused = []
    visible = []
    for topic in topics:
        name = topic_name(ctx, topic.topic_id) if ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
        if name is None:
            refused.append(_unfetched(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name):
            refused.append(_unfetched(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            visible.append(
                OffsetFetchRequestGroupTopic(
                    name=name, topic_id=topic.topic_id, partition_indexes=topic.partition_indexes
                )
            )
    wanted = OffsetFetchRequestGroup(
        group_id=asked.group_id, member_id=asked.member_id, member_epoch=asked.member_epoch, topics=visible
    )
    found = ctx.broker.groups.machine(asked.group_id).fetch_offsets(wanted, require_stable=require_stable)
    found.topics += refused
    return found


def _unfetched(topic: OffsetFetchRequestGroupTopic, code: ErrorCode) -> OffsetFetchResponseGroupTopic:
    partitions = [
        OffsetFetchResponseGroupPartition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseGroupTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _refusal(ctx: RequestContext, asked: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    if ctx.version >= _FIRST_WITH_GROUP_ERROR:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
    # These versions have no other place for the error.
    return OffsetFetchResponseGroup(
        group_id=asked.group_id, topics=[_unfetched(topic, code) for topic in asked.topics or ()]
    )


def _reply(ctx: RequestContext, groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if ctx.version >= _FIRST_BATCHED_VERSION:
        return OffsetFetchResponse(groups=groups)
    (only,) = groups
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in only.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=only.error_code)
