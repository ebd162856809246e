"""Rebalances of a classic group: the steps from one generation to the next."""

from dataclasses import replace

from tailrace.machines.group.classic.change import JOIN, RESTARTED_WAIT_MS_MIN, SESSION, SYNC, ClassicChange
from tailrace.machines.group.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.group import SyncGroupResponse


def rebalance_or_complete(change: ClassicChange) -> None:
    """Begin a rebalance because the members changed; if one is under way, end it if every member has joined."""
    if change.group.state is PREPARING_REBALANCE:
        complete_join_if_ready(change)
    else:
        prepare_rebalance(change)


def prepare_rebalance(change: ClassicChange) -> None:
    """Begin a rebalance: wait for every member to join."""
    group = change.group
    if group.state is COMPLETING_REBALANCE:
        refuse_syncs(change, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    change.cancel_timer(SYNC)
    if group.is_empty:
        # The group is new, and more members will follow the first: a generation of one would be rebalanced at once.
        delay_ms = change.setting.initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        change.set_timer(JOIN, delay_ms)
        group.transition(PREPARING_REBALANCE, change.now_ms)
        return
    group.transition(PREPARING_REBALANCE, change.now_ms)
    if group.has_all_joined:
        complete_join(change)
    else:
        change.set_timer(JOIN, group.rebalance_timeout_ms)


def refuse_syncs(change: ClassicChange, error: ErrorCode) -> None:
    """Refuse every sync that waits, and drop the assignments of the generation."""
    group = change.group
    group.assign({})
    for member in group.members.values():
        if change.reply_sync(member.member_id, SyncGroupResponse(error_code=error)):
            change.restart_session(member)


def complete_join_if_ready(change: ClassicChange) -> None:
    """Start the next generation if every member has joined; the initial delay of a new group is never cut short."""
    group = change.group
    if group.state is not PREPARING_REBALANCE or group.previous_state is EMPTY:
        return
    if group.has_all_joined:
        complete_join(change)


def complete_join(change: ClassicChange) -> None:
    """Start the next generation with the members that have joined."""
    group = change.group
    change.cancel_timer(JOIN)
    group.initial_delay = None
    for member in [m for key, m in group.members.items() if key not in group.joining and not m.is_static]:
        group.remove(member.member_id)
        change.cancel_timer(SESSION, member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none has joined: wait for them until their sessions end.
        change.set_timer(JOIN, max(group.rebalance_timeout_ms, RESTARTED_WAIT_MS_MIN))
        return
    group.start_generation(change.now_ms)
    if group.is_empty:
        change.write(group.to_record())
        return
    for member_id, member in group.members.items():
        token = group.joining.pop(member_id, None)
        if token is not None:
            change.reply(token, change.joined(member_id, with_members=group.is_leader(member_id)))
        change.restart_session(member)
        group.members[member_id] = replace(member, is_new=False)
        group.pending_sync.add(member_id)
    change.set_timer(SYNC, group.rebalance_timeout_ms)


def on_join_timer(change: ClassicChange) -> None:
    """End the wait for members, or extend it because a member joined a new group meanwhile."""
    group = change.group
    if group.state is not PREPARING_REBALANCE:
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
    """Remove the members that have joined and never asked for their assignments."""
    group = change.group
    if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        group.remove(member_id)
        change.cancel_timer(SESSION, member_id)
    prepare_rebalance(change)


def on_session_timer(change: ClassicChange, member_id: str) -> None:
    """Remove a member that sent nothing for its session timeout."""
    group = change.group
    if member_id in group.pending_join:
        group.remove(member_id)
        if group.state is PREPARING_REBALANCE and group.has_all_joined:
            complete_join(change)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if not member.is_new and (member_id in group.joining or member_id in group.syncing):
        return  # the member waits for the coordinator; its session restarts with the reply
    remove_member(change, member_id)
    if group.state is not PREPARING_REBALANCE:
        prepare_rebalance(change)
    elif group.has_all_joined:
        complete_join(change)


def remove_member(change: ClassicChange, member_id: str) -> None:
    """Remove a member; a request of it that waits is refused, so that its client joins as a new member."""
    change.reply_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID, "")
    change.reply_sync(member_id, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    change.group.remove(member_id)
