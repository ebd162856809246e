"""SyncGroup, Heartbeat and LeaveGroup: what members of a classic group say between two joins."""

from runnel.machines.decision import Token
from runnel.machines.group.classic_change import SESSION, SYNC, ClassicChange
from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.classic_rebalance import complete_join_if_ready, prepare_rebalance, remove_member
from runnel.machines.group.decision import Decision
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.group import (
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
    """A member asks for its assignment; the leader brings everybody's."""
    group = change.group
    try:
        _check_sync(group, request)
    except ApiError as error:
        change.reply(token, SyncGroupResponse(error_code=error.code))
        return
    _note_sync(change, request.member_id)
    if group.state is ClassicState.STABLE:
        change.reply(token, _assignment(group, group.members[request.member_id].assignment))
        return
    former = group.syncing.pop(request.member_id, None)
    if former is not None:
        change.reply(former, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
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
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def _note_sync(change: ClassicChange, member_id: str) -> None:
    change.group.pending_sync.discard(member_id)
    if not change.group.pending_sync:
        change.cancel_timer(SYNC)


def _assignment(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def _assign(change: ClassicChange, request: SyncGroupRequest) -> None:
    """Write the generation down and, once it is, hand the assignments out; whoever was forgotten gets nothing."""
    group = change.group
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    change.write(group.to_record({member_id: given.get(member_id, b"") for member_id in group.members}))
    for member in group.members.values():
        if change.reply_sync(member.member_id, _assignment(group, given.get(member.member_id, b""))):
            change.restart_session(member)
    change.decision.failed = lambda error: _fail_assignment(change, error)


def _fail_assignment(change: ClassicChange, error: ErrorCode) -> Decision:
    """The generation could not be written, so it never was: everybody is told, and joins again."""
    undo = ClassicChange(change.group, change.now_ms, change.setting)
    for reply in change.decision.replies:
        undo.reply(reply.token, SyncGroupResponse(error_code=error))
    prepare_rebalance(undo)
    return undo.decision


def heartbeat(change: ClassicChange, token: Token, request: HeartbeatRequest) -> None:
    """A member lives; the reply tells it of a rebalance."""
    group = change.group
    error = ErrorCode.NONE
    try:
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        change.restart_session(group.members[request.member_id])
        if group.state is ClassicState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
    except ApiError as refusal:
        error = refusal.code
    change.reply(token, HeartbeatResponse(error_code=error))


def leave(change: ClassicChange, token: Token, request: LeaveGroupRequest) -> None:
    """Members go, or an administrator makes them go (KIP-345)."""
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
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
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
    remove_member(change, group.members[member_id])
