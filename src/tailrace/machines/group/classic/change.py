"""A decision about one classic group in the making: the draft of the group, the time, and the replies and timers."""

from dataclasses import dataclass, field

from tailrace.machines.decision import Timer, Token
from tailrace.machines.group.classic.group import ClassicGroup
from tailrace.machines.group.classic.member import ClassicGroupMember
from tailrace.machines.group.classic.setting import ClassicGroupSetting
from tailrace.machines.group.classic.state import PREPARING_REBALANCE
from tailrace.machines.group.decision import Decision
from tailrace.machines.log_record import Record
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

SESSION, JOIN, SYNC = (f"classic-{name}" for name in ("session", "join", "sync"))
"""The purposes of timers: the first part of a timer's key, before the group id and, for a session, the member id."""

RESTARTED_WAIT_MS_MIN = 1_000
"""The shortest wait that begins again because its end changed nothing; members may ask for no wait at all."""


@dataclass(slots=True)
class ClassicChange:
    """The draft of a group, and the decision so far."""

    group: ClassicGroup
    now_ms: int
    setting: ClassicGroupSetting
    decision: Decision = field(default_factory=Decision)

    def write(self, *records: Record) -> None:
        self.decision.records.extend(records)

    def reply(self, token: Token, response: Message) -> None:
        self.decision.reply(token, response)

    # Timers.

    def set_timer(self, purpose: str, wait_ms: int, member_id: str = "") -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), self.now_ms + wait_ms))

    def cancel_timer(self, purpose: str, member_id: str = "") -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), None))

    def restart_session(self, member: ClassicGroupMember) -> None:
        """Restart the session of a member that sent a request."""
        self.set_timer(SESSION, member.session_timeout_ms, member.member_id)

    def restart_all(self) -> None:
        """Start every timer that the state of the group calls for, each from now on."""
        group = self.group
        for member in group.members.values():
            if member.is_new:
                self.set_timer(SESSION, self.setting.new_member_timeout_ms, member.member_id)
            else:
                self.restart_session(member)
        for member_id, session_timeout_ms in group.pending_join.items():
            self.set_timer(SESSION, session_timeout_ms, member_id)
        wait_ms = group.rebalance_timeout_ms if group.initial_delay is None else group.initial_delay[0]
        if group.state is PREPARING_REBALANCE:
            self.set_timer(JOIN, max(wait_ms, RESTARTED_WAIT_MS_MIN))
        elif group.pending_sync:
            self.set_timer(SYNC, max(wait_ms, RESTARTED_WAIT_MS_MIN))

    # Replies.

    def reply_join(self, member_id: str, error: ErrorCode, known_id: str) -> None:
        """Refuse the join of a member, if one waits."""
        token = self.group.joining.pop(member_id, None)
        if token is not None:
            self.reply(token, refuse_join(error, known_id))

    def reply_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Answer the sync of a member; False if none waits."""
        token = self.group.syncing.pop(member_id, None)
        if token is not None:
            self.reply(token, response)
        return token is not None

    def joined(self, member_id: str, *, with_members: bool = False, leader: str | None = None) -> JoinGroupResponse:
        """Build the reply with the current generation; the reply to the leader lists the members."""
        group = self.group
        members = []
        if with_members:
            members = [
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    metadata=member.metadata(group.protocol) or b"",
                )
                for member in group.members.values()
            ]
        return JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=leader or group.leader or "",
            member_id=member_id,
            members=members,
        )


def refuse_join(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Build the reply to a join that is refused."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
