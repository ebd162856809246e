"""JoinGroup: a member joins a classic group, or joins it again."""

from tailrace.base.limits import GROUP_PENDING_MEMBERS_MAX
from tailrace.machines.decision import Token
from tailrace.machines.group.classic.change import SESSION, ClassicChange, refuse_join
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.member import ClassicGroupMember, Protocols
from tailrace.machines.group.classic.rebalance import complete_join_if_ready, prepare_rebalance, rebalance_or_complete
from tailrace.machines.group.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tailrace.machines.group.group import Caller
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group import JoinGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_TWO_STEPS = 4  # KIP-394
FIRST_VERSION_THAT_SKIPS_ASSIGNMENT = 9  # KIP-814


def join(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest, new_id: str) -> None:
    """Decide a join; `new_id` is the member id for a member that has none."""
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
        _require_member_id(change, token, request, new_id)
    else:
        _add(change, token, caller, request, new_id)


def _has_room(change: ClassicChange, member_id: str) -> bool:
    group = change.group
    size_max = change.setting.size_max
    if not member_id and len(group.pending_join) >= GROUP_PENDING_MEMBERS_MAX:
        return False
    if group.is_empty:
        return True
    if group.state is PREPARING_REBALANCE:
        # Counting the members that have joined lets a group shrink after its maximum size was lowered.
        return member_id in group.joining or len(group.joining) < size_max
    return member_id in group.members or len(group.members) < size_max


def _require_member_id(change: ClassicChange, token: Token, request: JoinGroupRequest, new_id: str) -> None:
    # If the client never gets this reply, it leaves an unused id behind, and not a member that the others wait for.
    change.group.pending_join[new_id] = request.session_timeout_ms
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
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
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
    if _is_current(group, request):
        with_members = group.is_leader(member_id) and group.state is COMPLETING_REBALANCE
        change.reply(token, change.joined(member_id, with_members=with_members))
        return
    # Kafka drops a join that its member repeats. A reply does no harm: the client does not wait for it any more.
    change.reply_join(member_id, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    group.update(member_id, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms)
    group.joining[member_id] = token
    rebalance_or_complete(change)


def _is_current(group: ClassicGroup, request: JoinGroupRequest) -> bool:
    """Return whether the member only missed a reply: its protocols are unchanged, and no rebalance is needed.

    A leader that joins a stable group again asks for a rebalance: something else that its assignments depend on has
    changed.
    """
    if group.members[request.member_id].protocols != _protocols(request):
        return False
    if group.state is STABLE:
        return not group.is_leader(request.member_id)
    return group.state is COMPLETING_REBALANCE


def _join_static(change: ClassicChange, token: Token, caller: Caller, request: JoinGroupRequest, new_id: str) -> None:
    group = change.group
    old_id = group.static_members.get(request.group_instance_id or "")
    if old_id is None:
        _add(change, token, caller, request, new_id)
        return
    # The client that used the instance id until now is fenced.
    change.reply_join(old_id, ErrorCode.FENCED_INSTANCE_ID, old_id)
    change.reply_sync(old_id, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    old_leader, old_topics = group.leader, group.topics_of(old_id)
    change.cancel_timer(SESSION, old_id)
    group.rename(old_id, new_id)
    group.update(new_id, _protocols(request), request.rebalance_timeout_ms, request.session_timeout_ms)
    change.restart_session(group.members[new_id])
    if group.state is PREPARING_REBALANCE:
        group.joining[new_id] = token
        complete_join_if_ready(change)
    elif (
        group.state is COMPLETING_REBALANCE
        or group.choose_protocol() != group.protocol
        or group.topics_of(new_id) != old_topics
    ):
        # The leader may have put the old id into its assignments, or the group has to change its protocol, or the
        # client subscribes to other topics, which Kafka leaves unassigned until the next rebalance (KAFKA-12759).
        group.joining[new_id] = token
        prepare_rebalance(change)
    else:
        _keep_assignment(change, token, caller, new_id, old_leader or "")


def _keep_assignment(change: ClassicChange, token: Token, caller: Caller, member_id: str, old_leader: str) -> None:
    """Let a static member return to a stable group with the assignment that it had, without a rebalance."""
    group = change.group
    change.write(group.to_record())
    if caller.version >= FIRST_VERSION_THAT_SKIPS_ASSIGNMENT:
        is_leader = group.is_leader(member_id)
        response = change.joined(member_id, with_members=is_leader)
        response.skip_assignment = is_leader
    else:
        # An older client would compute assignments if it found itself the leader. So the reply names its old id.
        response = change.joined(member_id, leader=old_leader)
    change.reply(token, response)


def _protocols(request: JoinGroupRequest) -> Protocols:
    # The first of a name counts; a name that is listed twice would count as two members that support it.
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return tuple(named.items())
