"""One decision about one consumer group in the making, with all that it depends on."""

from dataclasses import dataclass, field
from uuid import UUID

from runnel.machines.controller.image import ClusterImage
from runnel.machines.decision import Timer
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_member import ConsumerMember
from runnel.machines.group.consumer_setting import ConsumerGroupSetting
from runnel.machines.group.decision import Decision
from runnel.machines.log_record import Record

SESSION, REBALANCE, JOIN, SYNC, REGEX = (
    f"consumer-{name}" for name in ("session", "rebalance", "join", "sync", "regex")
)
"""What a timer is for: the first part of its key, before the group id and, for all but the last, the member id."""


@dataclass(slots=True)
class Change:
    """The group, the world around it, and what has been decided so far.

    `topics_created_ms` is when the last topic was created, as far as this broker knows, and `topics_version` grows
    with every change of any topic. `must_divide` asks for a
    new target even if nothing about the members calls for one.
    """

    group: ConsumerGroup
    now_ms: int
    image: ClusterImage
    setting: ConsumerGroupSetting
    topics_created_ms: int = 0
    topics_version: int = 0
    decision: Decision = field(default_factory=Decision)
    epoch: int = -1
    must_divide: bool = False

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    def write(self, *records: Record) -> None:
        self.decision.records.extend(records)

    def set_timer(self, purpose: str, member_id: str, wait_ms: int) -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), self.now_ms + wait_ms))

    def cancel_timer(self, purpose: str, member_id: str) -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), None))

    def members_with(self, member: ConsumerMember) -> dict[str, ConsumerMember]:
        """All members once `member` is in; a static member takes the place of its former self."""
        members = dict(self.group.members)
        former = self.group.static_member(member.instance_id)
        if former is not None:
            members.pop(former.member_id, None)
        members[member.member_id] = member
        return members

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[UUID]:
        return self.group.topic_ids_of(member, self.image)
