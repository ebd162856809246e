"""What each member shall have: when it is computed anew, by which assignor, and what of it is written down."""

from collections import Counter

from runnel.machines.group.assignor import NOTHING, Assignment, Assignor, GroupSpec, MemberSpec
from runnel.machines.group.assignor_range import NAME as RANGE
from runnel.machines.group.assignor_range import assign_range
from runnel.machines.group.assignor_uniform import NAME as UNIFORM
from runnel.machines.group.assignor_uniform import assign_uniform
from runnel.machines.group.consumer_change import Change
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_member import ConsumerMember
from runnel.machines.group.consumer_record import target_epoch_record, target_record

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""The assignors that a broker can offer, under the names by which members ask for them."""


def update_target(change: Change, member: ConsumerMember) -> tuple[int, Assignment]:
    """The epoch and the target to which a member goes now, computed anew if the group has moved on."""
    group = change.group
    if group.assignment_epoch >= change.epoch or _is_too_soon(change):
        return group.assignment_epoch, group.target(member)
    members = change.members_with(member)
    targets = ASSIGNORS[_choose(change, members)](_specify(change, members))
    for member_id in sorted(members):
        if targets[member_id] != group.targets.get(member_id):
            change.write(target_record(group.group_id, member_id, targets[member_id]))
    change.write(target_epoch_record(group.group_id, change.epoch, change.now_ms))
    return change.epoch, targets[member.member_id]


def _is_too_soon(change: Change) -> bool:
    """Whether the last target is so new that another would cost more than it brings (KIP-1263)."""
    computed_ms, interval_ms = change.group.assignment_timestamp_ms, change.setting.assignment_interval_ms
    return bool(computed_ms and interval_ms) and change.now_ms < computed_ms + interval_ms


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """The assignor that most members ask for."""
    return _most_wanted(group.members, default)


def _choose(change: Change, members: dict[str, ConsumerMember]) -> str:
    return _most_wanted(members, change.setting.assignors[0])


def _most_wanted(members: dict[str, ConsumerMember], default: str) -> str:
    wanted = Counter(member.server_assignor for member in members.values() if member.server_assignor in ASSIGNORS)
    return max(sorted(wanted.items()), key=lambda item: item[1])[0] or default if wanted else default


def _specify(change: Change, members: dict[str, ConsumerMember]) -> GroupSpec:
    specs = {
        member_id: MemberSpec(
            change.topic_ids_of(member), change.group.target(member) or NOTHING, instance_id=member.instance_id
        )
        for member_id, member in members.items()
    }
    topic_ids = frozenset().union(*(spec.topics for spec in specs.values()))
    by_id = change.image.topics_by_id
    return GroupSpec(specs, {topic_id: by_id[topic_id].partition_count for topic_id in topic_ids})
