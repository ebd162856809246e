"""JoinGroup: a member comes, or comes again."""

from runnel.base.limits import GROUP_PENDING_MEMBERS_MAX
from runnel.machines.decision import Token
from runnel.machines.group.classic_change import SESSION, ClassicChange, refuse_join
from runnel.machines.group.classic_group import ClassicGroup, ClassicState
from runnel.machines.group.classic_member import ClassicGroupMember, Protocols
from runnel.machines.group.classic_rebalance import complete_join_if_ready, prepare_rebalance, rebalance_or_complete
from runnel.machines.group.decision import Decision
from runnel.machines.group.group import Caller
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.group import JoinGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_TWO_STEPS = 4  # KIP-394
FIRST_VERSION_THAT_SKIPS_ASSIGNMENT = 9  # KIP-814


def join(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest, new_id: str) -> None:
    """Take in a member; `new_id` is the id for one that has none."""
    group = change.group
    member_id = request.member_id
    if not _has_room(change, member_id):
        group.remove(member_id)
        change.reply(token, refuse_join(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        change.reply(token, refuse_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id:
        _join_with_id(change, token, caller, request)
    elif request.group_instance_id is not None:
        _join_static(change, token, caller, request, new_id)
    elif caller.version >= FIRST_VERSION_WITH_TWO_STEPS:
        _ask_to_join_with(change, token, request, new_id)
    else:
        _add(change, token, caller, request, new_id)


def _has_room(change: ClassicChange, member_id: str) -> bool:
    group = change.group
    size_max = change.setting.size_max
    if not member_id and len(group.pending_join) >= GROUP_PENDING_MEMBERS_MAX:
        return False
    if group.is_empty:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        # Counting those who wait, and not those who are listed, lets a group shrink whose bound was lowered.
        return member_id in group.joining or len(group.joining) < size_max
    return member_id in group.members or len(group.members) < size_max


def _ask_to_join_with(change: ClassicChange, token: Token, request: JoinGroupRequest, new_id: str) -> None:
    # A client that never gets this reply leaves an id behind, and not a member that everybody waits for.
    change.group.pending_join.add(new_id)
    change.set_timer(SESSION, request.session_timeout_ms, new_id)
    change.reply(token, refuse_join(ErrorCode.MEMBER_ID_REQUIRED, new_id))


def _add(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest, member_id: str) -> None:
    group = change.group
    member = ClassicGroupMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
        is_new=True,
    )
    if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
        group.new_member_added = True
    group.add(member, request.protocol_type)
    group.joining[member_id] = token
    change.set_timer(SESSION, change.setting.new_member_timeout_ms, member_id)
    rebalance_or_complete(change)


def _join_with_id(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest) -> None:
    group = change.group
    member_id = request.member_id
    if member_id in group.pending_join and request.group_instance_id is None:
        _add(change, token, caller, request, member_id)
        return
    try:
        group.check_member(member_id, request.group_instance_id)
    except ApiError as error:
        change.reply(token, refuse_join(error.code, member_id))
        return
    if _knows_its_place(group, request):
        with_members = group.is_leader(member_id) and group.state is ClassicState.COMPLETING_REBALANCE
        change.reply(token, change.joined(member_id, with_members=with_members))
        return
    member = group.members[member_id]
    _forget_former_join(change, member_id)
    group.update(member, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms)
    group.joining[member_id] = token
    rebalance_or_complete(change)


def _knows_its_place(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Whether the member only missed a reply: nothing about it changed, and no rebalance is to come.

    A leader that joins a stable group wants a rebalance: something else that the assignment depends on has changed.
    """
    if group.members[request.member_id].protocols != _protocols(request):
        return False
    if group.state is ClassicState.STABLE:
        return not group.is_leader(request.member_id)
    return group.state is ClassicState.COMPLETING_REBALANCE


def _forget_former_join(change: ClassicChange, member_id: str) -> None:
    # Kafka forgets a join that its member repeats. An answer does no harm: whoever sent it has given up on it.
    change.reply_join(member_id, ErrorCode.REBALANCE_IN_PROGRESS, member_id)


def _join_static(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest, new_id: str) -> None:
    group = change.group
    old_id = group.static_members.get(request.group_instance_id or "")
    if old_id is None:
        _add(change, token, caller, request, new_id)
        return
    # Whoever used the instance id until now is fenced.
    change.reply_join(old_id, ErrorCode.FENCED_INSTANCE_ID, old_id)
    change.reply_sync(old_id, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    old_leader = group.leader
    member = group.rename(old_id, new_id)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    change.cancel_timer(SESSION, old_id)
    group.update(member, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms)
    change.restart_session(member)
    if group.state is ClassicState.PREPARING_REBALANCE:
        group.joining[new_id] = token
        complete_join_if_ready(change)
    elif group.state is ClassicState.COMPLETING_REBALANCE or group.choose_protocol() != group.protocol:
        # The leader may have the old id in its assignments already, or the protocol is another one now.
        group.joining[new_id] = token
        prepare_rebalance(change)
    else:
        _keep_place(change, token, caller, member, old_leader or "")
        change.decision.failed = lambda error: _take_back(change, token, member, old_id, before, error)


def _keep_place(
    change: ClassicChange, token: Token, caller: Caller, member: ClassicGroupMember, old_leader: str
) -> None:
    """A static member is back in a stable group: it gets what it had, and nobody else notices."""
    group = change.group
    change.write(group.to_record({key: other.assignment for key, other in group.members.items()}))
    if caller.version >= FIRST_VERSION_THAT_SKIPS_ASSIGNMENT:
        is_leader = group.is_leader(member.member_id)
        response = change.joined(member.member_id, with_members=is_leader)
        response.skip_assignment = is_leader
    else:
        # An old client that finds itself the leader would assign, to no effect. So it is told the id that it had.
        response = change.joined(member.member_id, leader=old_leader)
    change.reply(token, response)


def _take_back(
    change: ClassicChange,
    token: Token,
    member: ClassicGroupMember,
    old_id: str,
    before: tuple[Protocols, int, int],
    error: ErrorCode,
) -> Decision:
    """The log does not know the new id, so it must not be used."""
    undo = ClassicChange(change.group, change.now_ms, change.setting)
    undo.cancel_timer(SESSION, member.member_id)
    for reply in change.decision.replies:
        if reply.token is not token:
            undo.reply(reply.token, reply.response)
    undo.group.update(member, *before)
    undo.group.rename(member.member_id, old_id)
    undo.restart_session(member)
    response = undo.joined("")
    response.error_code = error
    undo.reply(token, response)
    return undo.decision


def _protocols(request: JoinGroupRequest) -> Protocols:
    # The first of a name counts; a name that comes twice would count as two members that know it.
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return tuple(named.items())
