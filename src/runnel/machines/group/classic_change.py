"""One decision about one classic group in the making, with all that it depends on."""

from dataclasses import dataclass, field

from runnel.machines.decision import Timer, Token
from runnel.machines.group.classic_group import ClassicGroup
from runnel.machines.group.classic_member import ClassicGroupMember
from runnel.machines.group.classic_setting import ClassicGroupSetting
from runnel.machines.group.decision import Decision
from runnel.machines.log_record import Record
from runnel.protocol.errors import ErrorCode
from runnel.protocol.message import Message
from runnel.protocol.messages.group import JoinGroupResponse, JoinGroupResponseMember, SyncGroupResponse

SESSION, JOIN, SYNC = (f"classic-{name}" for name in ("session", "join", "sync"))
"""What a timer is for: the first part of its key, before the group id and, for a session, the member id."""


@dataclass(slots=True)
class ClassicChange:
    """The group, the time, and what has been decided so far."""

    group: ClassicGroup
    now_ms: int
    setting: ClassicGroupSetting
    decision: Decision = field(default_factory=Decision)

    def write(self, record: Record) -> None:
        self.decision.records.append(record)

    def reply(self, token: Token, response: Message) -> None:
        self.decision.reply(token, response)

    def set_timer(self, purpose: str, wait_ms: int, member_id: str = "") -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), self.now_ms + wait_ms))

    def cancel_timer(self, purpose: str, member_id: str = "") -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), None))

    def restart_session(self, member: ClassicGroupMember) -> None:
        """The member has shown that it lives."""
        self.set_timer(SESSION, member.session_timeout_ms, member.member_id)

    def reply_join(self, member_id: str, error: ErrorCode, known_id: str) -> None:
        """Send away a member that waits for its join, if it does."""
        token = self.group.joining.pop(member_id, None)
        if token is not None:
            self.reply(token, refuse_join(error, known_id))

    def reply_sync(self, member_id: str, response: SyncGroupResponse) -> bool:
        """Answer a member that waits for its assignment; whether it does."""
        token = self.group.syncing.pop(member_id, None)
        if token is not None:
            self.reply(token, response)
        return token is not None

    def joined(self, member_id: str, *, with_members: bool = False, leader: str | None = None) -> JoinGroupResponse:
        """The reply that tells a member of the current generation; its leader sees who the members are."""
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
    """The reply to a join that went wrong."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
