"""The targets of the members of a consumer group: when they are computed, by which assignor, and their records."""

from collections import Counter

from tailrace.base.invariant import invariant
from tailrace.machines.group.assignor.assignor import NOTHING, Assignment, Assignor, GroupSpec, MemberSpec
from tailrace.machines.group.assignor.range import NAME as RANGE
from tailrace.machines.group.assignor.range import assign_range
from tailrace.machines.group.assignor.uniform import NAME as UNIFORM
from tailrace.machines.group.assignor.uniform import assign_uniform
from tailrace.machines.group.consumer.change import Change
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.machines.group.consumer.record import target_epoch_record, target_record

ASSIGNORS: dict[str, Assignor] = {UNIFORM: assign_uniform, RANGE: assign_range}
"""The assignors that a broker supports, by name."""


def update_target(change: Change, member: ConsumerMember) -> tuple[int, Assignment]:
    """Return the assignment epoch and the target of a member, computed anew if the group epoch has grown."""
    group = change.group
    if group.assignment_epoch >= change.epoch or _is_too_soon(change):
        return group.assignment_epoch, group.target(member)
    members = change.members_with(member)
    spec = _specify(change, members)
    targets = ASSIGNORS[_choose(change, members)](spec)
    _check_targets(change, spec, targets)
    for member_id in sorted(members):
        if targets[member_id] != group.targets.get(member_id):
            change.write(target_record(group.group_id, member_id, targets[member_id]))
    change.write(target_epoch_record(group.group_id, change.epoch, change.now_ms))
    return change.epoch, targets[member.member_id]


def _check_targets(change: Change, spec: GroupSpec, targets: dict[str, Assignment]) -> None:
    """Check that an assignor has given every partition away, and to members of the group alone."""
    group_id = change.group.group_id
    invariant(targets.keys() == spec.members.keys(), f"{group_id}: an assignor has changed the members")
    assigned_count = sum(len(indexes) for target in targets.values() for indexes in target.values())
    invariant(
        assigned_count == sum(spec.partition_counts.values()),
        f"{group_id}: {assigned_count} of {sum(spec.partition_counts.values())} partitions are assigned",
    )


def _is_too_soon(change: Change) -> bool:
    """Return whether the last targets are newer than the assignment interval (KIP-1263).

    A time in the future comes from another coordinator, whose clock was ahead, and says nothing here.
    """
    computed_ms, interval_ms = change.group.assignment_timestamp_ms, change.setting.assignment_interval_ms
    return bool(computed_ms and interval_ms) and computed_ms <= change.now_ms < computed_ms + interval_ms


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """Return the assignor that most members ask for."""
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
