"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: membership in classic groups."""

import logging
from collections.abc import Sequence

from tailrace.base.limits import GROUP_MEMBER_METADATA_BYTES_MAX
from tailrace.base.request_limits import GROUP_MEMBER_PROTOCOLS_MAX
from tailrace.base.text import printable
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tailrace.server.api import api
from tailrace.server.context import Operation, RequestContext
from tailrace.server.group_caller import ask_coordinator, caller_of, check_group

log = logging.getLogger("tailrace.server")

_FIRST_NULLABLE_PROTOCOL = 7
_FIRST_WITH_PROTOCOLS_IN_SYNC = 5  # KIP-559
_FIRST_WITH_MANY_LEAVING = 3


def _check_name(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


# --- JoinGroup


def fail_join(ctx: RequestContext, request: JoinGroupRequest, error: ApiError) -> JoinGroupResponse:
    return _in_version(ctx, JoinGroupResponse(error_code=error.code, member_id=request.member_id, protocol_name=None))


def _in_version(ctx: RequestContext, response: JoinGroupResponse) -> JoinGroupResponse:
    """Return the protocol; if there is none, null from version 7 on and empty before."""
    if ctx.version < _FIRST_NULLABLE_PROTOCOL:
        response.protocol_name = response.protocol_name or ""
    else:
        response.protocol_name = response.protocol_name or None
    return response


@api(JoinGroupRequest, versions=(0, 9), fail=fail_join)
async def join_group(ctx: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    """Join a group; the reply waits until all members have joined or have been removed."""
    check_group(ctx, Operation.READ, request.group_id)
    _check_name(request.group_id)
    _check_size(request.protocols)
    if ctx.version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    if request.reason:
        log.debug("a member joins %s: %s", printable(request.group_id), printable(request.reason))
    caller = caller_of(ctx)
    response = await ask_coordinator(
        ctx,
        request.group_id,
        JoinGroupResponse,
        lambda machine, now_ms, answer: machine.decide_join(now_ms, answer, caller, request),
    )
    return _in_version(ctx, response)


def _check_size(protocols: Sequence[JoinGroupRequestProtocol]) -> None:
    if len(protocols) > GROUP_MEMBER_PROTOCOLS_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the member supports {len(protocols)} protocols")
    if sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols) > GROUP_MEMBER_METADATA_BYTES_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the metadata of the member is larger than a group can store")


# --- SyncGroup


def fail_sync(ctx: RequestContext, request: SyncGroupRequest, error: ApiError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)


@api(SyncGroupRequest, versions=(0, 5), fail=fail_sync)
async def sync_group(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give a member its assignment; the reply waits until the leader of the group has sent it."""
    if ctx.version >= _FIRST_WITH_PROTOCOLS_IN_SYNC and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_group(ctx, Operation.READ, request.group_id)
    _check_name(request.group_id)
    return await ask_coordinator(
        ctx,
        request.group_id,
        SyncGroupResponse,
        lambda machine, now_ms, answer: machine.decide_sync(now_ms, answer, request),
    )


# --- Heartbeat


def fail_heartbeat(ctx: RequestContext, request: HeartbeatRequest, error: ApiError) -> HeartbeatResponse:
    # A coordinator that is still loading does not know its members; they must not leave because of that.
    is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)


@api(HeartbeatRequest, versions=(0, 4), fail=fail_heartbeat)
async def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep the session of a member alive."""
    check_group(ctx, Operation.READ, request.group_id)
    _check_name(request.group_id)
    return await ask_coordinator(
        ctx,
        request.group_id,
        HeartbeatResponse,
        lambda machine, now_ms, answer: machine.decide_heartbeat(now_ms, answer, request),
    )


# --- LeaveGroup


def fail_leave(ctx: RequestContext, request: LeaveGroupRequest, error: ApiError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)


@api(LeaveGroupRequest, versions=(0, 5), fail=fail_leave)
async def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members; before version 3 there is one, and its error is that of the reply."""
    check_group(ctx, Operation.READ, request.group_id)
    _check_name(request.group_id)
    if ctx.version < _FIRST_WITH_MANY_LEAVING:
        request.members = [LeaveGroupRequestMember(member_id=request.member_id)]
    for member in request.members:
        if member.reason:
            log.debug("a member leaves %s: %s", printable(request.group_id), printable(member.reason))
    response = await ask_coordinator(
        ctx,
        request.group_id,
        LeaveGroupResponse,
        lambda machine, now_ms, answer: machine.decide_leave(now_ms, answer, request),
    )
    if ctx.version < _FIRST_WITH_MANY_LEAVING and response.members:
        return LeaveGroupResponse(error_code=response.members[0].error_code)
    return response
