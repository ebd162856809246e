"""SyncGroup, Heartbeat and LeaveGroup: the requests of classic members between two joins."""

from tailrace.machines.decision import Token
from tailrace.machines.group.classic.change import SESSION, SYNC, ClassicChange
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.rebalance import (
    complete_join_if_ready,
    prepare_rebalance,
    refuse_syncs,
    remove_member,
)
from tailrace.machines.group.classic.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)


def sync(change: ClassicChange, token: Token, request: SyncGroupRequest) -> None:
    """Give a member its assignment; until the leader has sent the assignments, the request waits."""
    group = change.group
    try:
        _check_sync(group, request)
    except ApiError as error:
        change.reply(token, SyncGroupResponse(error_code=error.code))
        return
    group.pending_sync.discard(request.member_id)
    if not group.pending_sync:
        change.cancel_timer(SYNC)
    if group.state is STABLE:
        change.reply(token, _assignment(group, request.member_id))
        return
    change.reply_sync(request.member_id, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.syncing[request.member_id] = token
    if group.is_leader(request.member_id):
        _assign(change, request)


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.is_empty:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    for theirs, ours in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)):
        if theirs is not None and ours is not None and theirs != ours:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # KIP-559
    if group.state is PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def _assignment(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )


def _assign(change: ClassicChange, request: SyncGroupRequest) -> None:
    """Write the assignments of the leader, and send each waiting member its own."""
    group = change.group
    group.assign({assignment.member_id: assignment.assignment for assignment in request.assignments})
    change.write(group.to_record())
    group.transition(STABLE, change.now_ms)
    for member in group.members.values():
        if change.reply_sync(member.member_id, _assignment(group, member.member_id)):
            change.restart_session(member)


def abandon_generation(change: ClassicChange, token: Token, error: ErrorCode) -> None:
    """Give up a generation whose assignments could not be written: tell every waiting member, and rebalance.

    `token` is the request of the leader.
    """
    change.reply(token, SyncGroupResponse(error_code=error))
    refuse_syncs(change, error)
    prepare_rebalance(change)


def heartbeat(change: ClassicChange, token: Token, request: HeartbeatRequest) -> None:
    """Restart the session of a member, and tell it of a rebalance. This changes timers alone."""
    group = change.group
    error = ErrorCode.NONE
    try:
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        change.restart_session(group.members[request.member_id])
        if group.state is PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
    except ApiError as refusal:
        error = refusal.code
    change.reply(token, HeartbeatResponse(error_code=error))


def leave(change: ClassicChange, token: Token, request: LeaveGroupRequest) -> None:
    """Remove members, at their own request or that of an admin client (KIP-345)."""
    group = change.group
    outcomes = []
    for member in request.members:
        try:
            _leave_one(change, member)
            error = ErrorCode.NONE
        except ApiError as refusal:
            error = refusal.code
        outcomes.append(
            LeaveGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
            )
        )
    if any(outcome.error_code == ErrorCode.NONE for outcome in outcomes):
        if group.state in (STABLE, COMPLETING_REBALANCE):
            prepare_rebalance(change)
        else:
            complete_join_if_ready(change)
    change.reply(token, LeaveGroupResponse(members=outcomes))


def _leave_one(change: ClassicChange, identity: LeaveGroupRequestMember) -> None:
    group = change.group
    member_id = identity.member_id
    if member_id in group.pending_join:
        group.remove(member_id)
        change.cancel_timer(SESSION, member_id)
        return
    if member_id:
        group.check_member(member_id, identity.group_instance_id)
    elif identity.group_instance_id in group.static_members:
        member_id = group.static_members[identity.group_instance_id]
    else:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    change.cancel_timer(SESSION, member_id)
    remove_member(change, member_id)
