"""A decision about one consumer group in the making: the group, the cluster, and the records and timers."""

from dataclasses import dataclass, field
from uuid import UUID

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.decision import Timer
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.machines.group.consumer.setting import ConsumerGroupSetting
from tailrace.machines.group.decision import Decision
from tailrace.machines.log_record import Record

SESSION, REBALANCE, JOIN, SYNC, REGEX = (
    f"consumer-{name}" for name in ("session", "rebalance", "join", "sync", "regex")
)
"""The purposes of timers: the first part of a timer's key, before the group id and, except for REGEX, the member id."""


@dataclass(slots=True)
class Change:
    """The group, what the decision depends on, and the decision so far.

    `topics_created_ms` is the time at which this broker saw the last new topic, and `topics_version` grows with every
    change of any topic. `must_reassign` asks for a new target even if the members do not call for one.
    """

    group: ConsumerGroup
    now_ms: int
    image: ClusterImage
    setting: ConsumerGroupSetting
    topics_created_ms: int = 0
    topics_version: int = 0
    decision: Decision = field(default_factory=Decision)
    epoch: int = -1
    must_reassign: bool = False

    def __post_init__(self) -> None:
        self.epoch = self.group.epoch

    def write(self, *records: Record) -> None:
        self.decision.records.extend(records)

    def set_timer(self, purpose: str, member_id: str, wait_ms: int) -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), self.now_ms + wait_ms))

    def cancel_timer(self, purpose: str, member_id: str) -> None:
        self.decision.timers.append(Timer((purpose, self.group.group_id, member_id), None))

    def members_with(self, member: ConsumerMember) -> dict[str, ConsumerMember]:
        """Return all members after `member` has joined; a static member replaces the member with its instance id."""
        members = dict(self.group.members)
        former = self.group.static_member(member.instance_id)
        if former is not None:
            members.pop(former.member_id, None)
        members[member.member_id] = member
        return members

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[UUID]:
        return self.group.topic_ids_of(member, self.image)
