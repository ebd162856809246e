"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848)."""

import asyncio
from collections.abc import Iterator

from tailrace.base.repetition import Repetitions
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.server.api import api
from tailrace.server.context import GROUP_OPERATIONS, Operation, RequestContext, Resource
from tailrace.server.group_caller import ask_coordinator, caller_of, check_group

_HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def _check_on(ctx: RequestContext) -> None:
    if "consumer" not in ctx.broker.config.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


# --- ConsumerGroupHeartbeat


def fail_heartbeat(
    ctx: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    error: ApiError,
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


@api(ConsumerGroupHeartbeatRequest, versions=(0, 1), fail=fail_heartbeat)
async def consumer_group_heartbeat(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Process the heartbeat of a member, and return its assignment."""
    _check_on(ctx)
    check_group(ctx, Operation.READ, request.group_id)
    names = request.subscribed_topic_names or []
    if not all(ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, name) for name in set(names)):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    caller = caller_of(ctx)
    return await ask_coordinator(
        ctx,
        request.group_id,
        ConsumerGroupHeartbeatResponse,
        lambda machine, now_ms, answer: machine.decide_consumer_heartbeat(now_ms, answer, caller, request),
    )


# --- ConsumerGroupDescribe


def fail_describe(
    ctx: RequestContext,
    request: ConsumerGroupDescribeRequest,
    error: ApiError,
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_failed(name, error) for name in request.group_ids])


@api(ConsumerGroupDescribeRequest, versions=(0, 1), fail=fail_describe)
async def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe each group, or return its error."""
    _check_on(ctx)
    repetitions = Repetitions()
    groups = [await _describe(ctx, name) for name in request.group_ids if repetitions.admits(name)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.allowed_operations(GROUP_OPERATIONS, Resource.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(ctx: RequestContext, name: str) -> ConsumerGroupDescribeResponseGroup:
    await asyncio.sleep(0)  # see `find_coordinator`
    try:
        check_group(ctx, Operation.DESCRIBE, name)
        if not name:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        (group,) = ctx.broker.groups.machine(name).describe_consumer([name])
    except ApiError as error:
        return _failed(name, error)
    if not all(ctx.is_allowed(Operation.DESCRIBE, Resource.TOPIC, topic) for topic in _topics(group)):
        return _failed(name, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN))
    return group


def _topics(group: ConsumerGroupDescribeResponseGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _failed(name: str, error: ApiError) -> ConsumerGroupDescribeResponseGroup:
    return ConsumerGroupDescribeResponseGroup(group_id=name, error_code=error.code, error_message=error.message)
