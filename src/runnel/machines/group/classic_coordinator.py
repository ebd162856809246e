"""The classic groups of one coordinator: requests, timers and records in, decisions out."""

from collections.abc import Callable, MutableMapping

from runnel.base.limits import GROUP_MEMBER_ID_PREFIX_LENGTH_MAX
from runnel.machines.decision import Timer, Token
from runnel.machines.group.classic_change import JOIN, SESSION, SYNC, ClassicChange, refuse_join
from runnel.machines.group.classic_group import ClassicGroup
from runnel.machines.group.classic_join import join
from runnel.machines.group.classic_rebalance import (
    on_join_timer,
    on_session_timer,
    on_sync_timer,
    prepare_rebalance,
)
from runnel.machines.group.classic_session import heartbeat, leave, sync
from runnel.machines.group.classic_setting import ClassicGroupSetting
from runnel.machines.group.decision import Decision
from runnel.machines.group.group import Caller, Group
from runnel.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from runnel.machines.log_record import Record
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

TIMERS = (SESSION, JOIN, SYNC)


class ClassicCoordinator:
    """Decides for all classic groups among `groups`, which it shares with other kinds.

    `new_uuid` makes the end of an id for a member that brings none.
    """

    def __init__(
        self, groups: MutableMapping[str, Group], setting: ClassicGroupSetting, new_uuid: Callable[[], str]
    ) -> None:
        self.groups = groups
        self.setting = setting
        self.new_uuid = new_uuid

    # Requests.

    def decide_join(self, now_ms: int, token: Token, caller: Caller, request: JoinGroupRequest) -> Decision:
        """A member joins; a member without an id founds the group if it must."""
        if not self.setting.session_timeout_min_ms <= request.session_timeout_ms <= self.setting.session_timeout_max_ms:
            return Decision().reply(token, refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        group = self.find(request.group_id)
        is_new = group is None
        if group is None:
            if request.member_id:
                return Decision().reply(token, refuse_join(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = ClassicGroup(request.group_id, now_ms)
        change = self.change(group, now_ms)
        join(change, token, caller, request, "" if request.member_id else self._new_id(caller, request))
        if is_new and (group.members or group.pending_join):
            self._found(group, change)
        return change.decision

    def _new_id(self, caller: Caller, request: JoinGroupRequest) -> str:
        name = request.group_instance_id or caller.client_id
        return f"{name[:GROUP_MEMBER_ID_PREFIX_LENGTH_MAX]}-{self.new_uuid()}"

    def _found(self, group: ClassicGroup, change: ClassicChange) -> None:
        """Write a new group down, so that a restart knows it before its first generation."""
        self.groups[group.group_id] = group
        change.write(group.to_creation_record())
        change.decision.failed = lambda error: self._unfound(group, change, error)

    def _unfound(self, group: ClassicGroup, change: ClassicChange, error: ErrorCode) -> Decision:
        del self.groups[group.group_id]
        undo = Decision(timers=[Timer(timer.key, None) for timer in change.decision.timers])
        waiting = [reply.token for reply in change.decision.replies] + list(group.joining.values())
        for token in waiting:
            undo.reply(token, refuse_join(error, ""))
        return undo

    def decide_sync(self, now_ms: int, token: Token, group: ClassicGroup, request: SyncGroupRequest) -> Decision:
        """A member asks for its assignment."""
        change = self.change(group, now_ms)
        sync(change, token, request)
        return change.decision

    def decide_heartbeat(self, now_ms: int, token: Token, group: ClassicGroup, request: HeartbeatRequest) -> Decision:
        """A member lives."""
        change = self.change(group, now_ms)
        heartbeat(change, token, request)
        return change.decision

    def decide_leave(self, now_ms: int, token: Token, group: ClassicGroup, request: LeaveGroupRequest) -> Decision:
        """Members go."""
        change = self.change(group, now_ms)
        leave(change, token, request)
        return change.decision

    def find(self, group_id: str) -> ClassicGroup | None:
        """The group; INCONSISTENT_GROUP_PROTOCOL if it is one of another kind."""
        group = self.groups.get(group_id)
        if group is None or isinstance(group, ClassicGroup):
            return group
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{group_id} is a group of another kind")

    def change(self, group: ClassicGroup, now_ms: int) -> ClassicChange:
        """A decision about a group, still empty."""
        return ClassicChange(group, now_ms, self.setting)

    # Time and the log.

    def on_timer(self, now_ms: int, key: tuple[str, ...]) -> Decision:
        """A member was silent or slow for too long, or the wait for members is over."""
        group = self.groups.get(key[1])
        if not isinstance(group, ClassicGroup):
            return Decision()
        change = self.change(group, now_ms)
        if key[0] == JOIN:
            on_join_timer(change)
        elif key[0] == SYNC:
            on_sync_timer(change)
        else:
            on_session_timer(change, key[2])
        return change.decision

    def on_loaded(self, now_ms: int) -> Decision:
        """All members get a whole session from now on: they could not reach anybody before."""
        decision = Decision()
        for group in self.groups.values():
            if not isinstance(group, ClassicGroup):
                continue
            change = ClassicChange(group, now_ms, self.setting, decision)
            for member in group.members.values():
                change.restart_session(member)
            if len(group.members) > self.setting.size_max:
                prepare_rebalance(change)  # the bound was lowered; members get the chance to commit before some must go
        return decision

    def on_unloaded(self) -> Decision:
        """Another broker coordinates from now on: whoever waits here shall look for it."""
        decision = Decision()
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                for member_id, token in group.joining.items():
                    decision.reply(token, refuse_join(ErrorCode.NOT_COORDINATOR, member_id))
                for token in group.syncing.values():
                    decision.reply(token, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return decision

    def replay(self, record: Record) -> bool:
        """Take in one record, live or from the log; False when it is not about classic groups."""
        key, value = record.key, record.value
        if not isinstance(key, GroupMetadataKey):
            return False
        group = self.groups.get(key.group)
        if isinstance(value, GroupMetadataValue):
            if not isinstance(group, ClassicGroup):
                group = self.groups[key.group] = ClassicGroup(key.group)
            group.replay(value)
        elif isinstance(group, ClassicGroup):
            del self.groups[key.group]  # a group that has become one of another kind stays
        return True
