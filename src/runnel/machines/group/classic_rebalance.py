"""From one generation of a classic group to the next: who is waited for, for how long, and what they are told."""

from runnel.machines.group.classic_change import JOIN, SESSION, SYNC, ClassicChange
from runnel.machines.group.classic_group import ClassicState
from runnel.machines.group.classic_member import ClassicGroupMember
from runnel.protocol.errors import ErrorCode
from runnel.protocol.messages.group import SyncGroupResponse


def rebalance_or_complete(change: ClassicChange) -> None:
    """Something about the members has changed: begin a rebalance or, in the middle of one, see if it can end."""
    if change.group.state is ClassicState.PREPARING_REBALANCE:
        complete_join_if_ready(change)
    else:
        prepare_rebalance(change)


def prepare_rebalance(change: ClassicChange) -> None:
    """Call all members together."""
    group = change.group
    if group.state is ClassicState.COMPLETING_REBALANCE:
        refuse_syncs(change, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    change.cancel_timer(SYNC)
    if group.is_empty:
        # The group is new. Others will come: a first generation of one member would be rebalanced at once.
        delay_ms = change.setting.initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        change.set_timer(JOIN, delay_ms)
        group.transition(ClassicState.PREPARING_REBALANCE, change.now_ms)
        return
    group.transition(ClassicState.PREPARING_REBALANCE, change.now_ms)
    if group.has_all_joined:
        complete_join(change)
    else:
        change.set_timer(JOIN, group.rebalance_timeout_ms)


def refuse_syncs(change: ClassicChange, error: ErrorCode) -> None:
    """Send those away who wait for an assignment that will not come."""
    for member in change.group.members.values():
        member.assignment = b""
        if change.reply_sync(member.member_id, SyncGroupResponse(error_code=error)):
            change.restart_session(member)


def complete_join_if_ready(change: ClassicChange) -> None:
    """End the wait if everybody is here; the first wait of a new group always lasts its time."""
    group = change.group
    if group.state is not ClassicState.PREPARING_REBALANCE or group.previous_state is ClassicState.EMPTY:
        return
    if group.has_all_joined:
        complete_join(change)


def complete_join(change: ClassicChange) -> None:
    """Begin the next generation with those who are here."""
    group = change.group
    change.cancel_timer(JOIN)
    group.initial_delay = None
    for member in [m for key, m in group.members.items() if key not in group.joining and not m.is_static]:
        group.remove(member.member_id)
        change.cancel_timer(SESSION, member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none of them came; their sessions decide how long they are waited for.
        change.set_timer(JOIN, group.rebalance_timeout_ms)
        return
    group.start_generation(change.now_ms)
    if group.is_empty:
        change.write(group.to_record({}))
        return
    for member in group.members.values():
        token = group.joining.pop(member.member_id, None)
        if token is not None:
            is_leader = group.is_leader(member.member_id)
            change.reply(token, change.joined(member.member_id, with_members=is_leader))
        change.restart_session(member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    change.set_timer(SYNC, group.rebalance_timeout_ms)


def on_join_timer(change: ClassicChange) -> None:
    """The wait for members is over, or is made longer because some came to a new group meanwhile."""
    group = change.group
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None:
        delay_ms, remaining_ms = group.initial_delay
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            longer_ms = min(change.setting.initial_rebalance_delay_ms, remaining_ms)
            group.initial_delay = (longer_ms, max(remaining_ms - delay_ms, 0))
            change.set_timer(JOIN, longer_ms)
            return
    complete_join(change)


def on_sync_timer(change: ClassicChange) -> None:
    """Whoever has joined and never asked for its assignment is gone."""
    group = change.group
    if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        group.remove(member_id)
        change.cancel_timer(SESSION, member_id)
    prepare_rebalance(change)


def on_session_timer(change: ClassicChange, member_id: str) -> None:
    """A member has not been heard of for its session timeout."""
    group = change.group
    if member_id in group.pending_join:
        group.remove(member_id)
        if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            complete_join(change)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member_id in group.joining or member_id in group.syncing):
        return  # it waits for us; its session begins again with the reply
    remove_member(change, member)
    if group.state is not ClassicState.PREPARING_REBALANCE:
        prepare_rebalance(change)
    elif group.has_all_joined:
        complete_join(change)


def remove_member(change: ClassicChange, member: ClassicGroupMember) -> None:
    """Forget a member; if it is still there and waits, the reply tells it to join anew."""
    change.reply_join(member.member_id, ErrorCode.UNKNOWN_MEMBER_ID, "")
    change.reply_sync(member.member_id, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    change.group.remove(member.member_id)
