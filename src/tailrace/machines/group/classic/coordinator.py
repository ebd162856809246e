"""The classic groups of one coordinator: requests, timers and records in, decisions out.

Every decision that may change a group is made on a draft of it. `state` says when the draft replaces the group.
"""

from collections.abc import Callable, MutableMapping

from tailrace.base.invariant import invariant
from tailrace.base.limits import GROUP_MEMBER_ID_PREFIX_LENGTH_MAX
from tailrace.machines.decision import Timer, Token
from tailrace.machines.group.classic.change import JOIN, SESSION, SYNC, ClassicChange, refuse_join
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.join import join
from tailrace.machines.group.classic.rebalance import (
    on_join_timer,
    on_session_timer,
    on_sync_timer,
    prepare_rebalance,
)
from tailrace.machines.group.classic.session import abandon_generation, heartbeat, leave, sync
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.classic.state import DEAD, may_follow
from tailrace.machines.group.decision import Decision
from tailrace.machines.group.group import Caller, Group
from tailrace.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

TIMERS = (SESSION, JOIN, SYNC)

Refuse = Callable[[ClassicChange, ErrorCode], None]
"""Decides about the unchanged group when the records of a decision could not be written."""


class ClassicCoordinator:
    """Decides for the classic groups among `groups`, which hold the consumer groups too.

    `new_uuid` makes the end of a member id.
    """

    def __init__(
        self, groups: MutableMapping[str, Group], setting: ClassicGroupSetting, new_uuid: Callable[[], str]
    ) -> None:
        self.groups = groups
        self.setting = setting
        self.new_uuid = new_uuid
        # Each group whose records are about to be written, as it will be once they are replayed.
        self._drafts: dict[str, ClassicGroup] = {}

    # Requests.

    def decide_join(
        self, now_ms: int, token: Token, caller: Caller, request: JoinGroupRequest, replaced: Group | None = None
    ) -> Decision:
        """Decide JoinGroup. A member without an id creates the group if needed.

        `replaced` is an empty group of the consumer protocol, whose place the classic group takes.
        """
        if not self.setting.session_timeout_min_ms <= request.session_timeout_ms <= self.setting.session_timeout_max_ms:
            return Decision().reply(token, refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        group = self.find(request.group_id) if replaced is None else None
        if group is None and request.member_id:
            return Decision().reply(token, refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        draft = ClassicGroup(request.group_id, now_ms) if group is None else group.draft()
        change = self.change(draft, now_ms)
        join(change, token, caller, request, "" if request.member_id else self._new_id(caller, request))
        if group is None:
            if not draft.members and not draft.pending_join:
                return change.decision  # the join was refused
            # The record lets a restart find the group before its first generation.
            change.write(*([] if replaced is None else replaced.tombstones()), draft.to_creation_record())
        return self._finish(change, group, lambda unchanged, error: _refuse_join(unchanged, token, error))

    def _new_id(self, caller: Caller, request: JoinGroupRequest) -> str:
        name = request.group_instance_id or caller.client_id
        return f"{name[:GROUP_MEMBER_ID_PREFIX_LENGTH_MAX]}-{self.new_uuid()}"

    def decide_sync(self, now_ms: int, token: Token, group: ClassicGroup, request: SyncGroupRequest) -> Decision:
        """Decide SyncGroup."""
        change = self.change(group.draft(), now_ms)
        sync(change, token, request)
        return self._finish(change, group, lambda unchanged, error: abandon_generation(unchanged, token, error))

    def decide_heartbeat(self, now_ms: int, token: Token, group: ClassicGroup, request: HeartbeatRequest) -> Decision:
        """Decide Heartbeat."""
        change = self.change(group, now_ms)
        heartbeat(change, token, request)
        return change.decision

    def decide_leave(self, now_ms: int, token: Token, group: ClassicGroup, request: LeaveGroupRequest) -> Decision:
        """Decide LeaveGroup."""
        change = self.change(group.draft(), now_ms)
        leave(change, token, request)
        return self._finish(
            change, group, lambda unchanged, error: unchanged.reply(token, LeaveGroupResponse(error_code=error))
        )

    def find(self, group_id: str) -> ClassicGroup | None:
        """Find a group; raise INCONSISTENT_GROUP_PROTOCOL if it is a consumer group."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return group
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {group_id} does not use the classic protocol")

    def change(self, group: ClassicGroup, now_ms: int) -> ClassicChange:
        """Begin a decision; `group` is a draft, unless the decision sets nothing but timers."""
        return ClassicChange(group, now_ms, self.setting)

    # Drafts.

    def expect(self, draft: ClassicGroup) -> None:
        """Have a draft replace its group when the record of the draft is replayed."""
        draft.check()
        self._drafts[draft.group_id] = draft

    def drop_draft(self, group_id: str) -> None:
        """Forget a draft whose record could not be written."""
        invariant(group_id in self._drafts, f"{group_id}: a write failed that no draft waits for")
        del self._drafts[group_id]

    def _finish(self, change: ClassicChange, group: ClassicGroup | None, refuse: Refuse) -> Decision:
        """End a decision whose draft replaces `group`: at once or, if it has records, when they are replayed."""
        if not change.decision.records:
            if group is None or group.state is not change.group.state:
                change.group.check()  # not each time: it looks at every member
            self.groups[change.group.group_id] = change.group
            return change.decision
        self.expect(change.group)
        change.decision.failed = lambda error: self._decide_unwritten(change, group, refuse, error)
        return change.decision

    def _decide_unwritten(
        self, attempt: ClassicChange, group: ClassicGroup | None, refuse: Refuse, error: ErrorCode
    ) -> Decision:
        """Decide anew, because the records of an attempt could not be written: the group is unchanged."""
        self.drop_draft(attempt.group.group_id)
        unchanged = ClassicGroup(attempt.group.group_id) if group is None else group.draft()
        change = self.change(unchanged, attempt.now_ms)
        # The attempt has set and stopped timers, and the one that led to it may have fired.
        change.decision.timers += [Timer(timer.key, None) for timer in attempt.decision.timers]
        change.restart_all()
        refuse(change, error)
        invariant(not change.decision.records, f"{unchanged.group_id}: a write follows one that failed")
        if group is not None:
            self.groups[unchanged.group_id] = unchanged
        return change.decision

    # Timers and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """Decide what the end of a session or of a wait changes."""
        group = self.groups.get(key[1])
        if not isinstance(group, ClassicGroup):
            return Decision()
        change = self.change(group.draft(), now_ms)
        if key[0] == JOIN:
            on_join_timer(change)
        elif key[0] == SYNC:
            on_sync_timer(change)
        else:
            on_session_timer(change, key[2])
        return self._finish(change, group, lambda _unchanged, _error: None)

    def on_loaded(self, now_ms: int) -> Decision:
        """Start a whole session for every member, because none could reach the coordinator before."""
        decision = Decision()
        for group in list(self.groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            change = self.change(group.draft(), now_ms)
            change.restart_all()
            if len(group.members) > self.setting.size_max:
                prepare_rebalance(change)  # the maximum was lowered; members can commit before some have to go
            invariant(not change.decision.records, f"{group.group_id}: a group writes while it is loaded")
            self.groups[group.group_id] = change.group
            decision.timers += change.decision.timers
        return decision

    def on_unloaded(self) -> Decision:
        """Refuse every request that waits: another broker is the coordinator now."""
        decision = Decision()
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member_id, token in group.joining.items():
                    decision.reply(token, refuse_join(ErrorCode.NOT_COORDINATOR, member_id))
                for token in group.syncing.values():
                    decision.reply(token, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return decision

    def replay(self, record: Record) -> bool:
        """Replay one record, live or from the log; False if it is not about a classic group."""
        key, value = record.key, record.value
        if not isinstance(key, GroupMetadataKey):
            return False
        draft = self._drafts.pop(key.group, None)
        if isinstance(value, GroupMetadataValue):
            if draft is not None:
                _check_draft(draft, value)
            self.groups[key.group] = draft or ClassicGroup.of_record(key.group, value)
            return True
        invariant(draft is None, f"{key.group}: a tombstone is replayed in place of a generation")
        group = self.groups.get(key.group)
        if isinstance(group, ClassicGroup):  # the tombstone of an upgraded group does not remove its successor
            invariant(may_follow(group.state, DEAD), f"{key.group}: a tombstone after {group.state.value}")
            del self.groups[key.group]
        return True


def _refuse_join(unchanged: ClassicChange, token: Token, error: ErrorCode) -> None:
    """Refuse a join that could not be written: of a new group, or of a static member that came back."""
    response = refuse_join(error, "")
    if unchanged.group.members:
        response = unchanged.joined("")
        response.error_code = error
    unchanged.reply(token, response)


def _check_draft(draft: ClassicGroup, value: GroupMetadataValue) -> None:
    """Check that a draft and the record that was written for it tell the same."""
    invariant(
        draft.generation == value.generation,
        f"{draft.group_id}: the record of generation {value.generation} is replayed for generation {draft.generation}",
    )
    written = [member.member_id for member in value.members]
    invariant(
        not written or (written == list(draft.members) and value.leader == draft.leader),
        f"{draft.group_id}: the record of generation {value.generation} has other members or another leader",
    )
