"""The `range` assignor: each topic is split into ranges in the order of the members.

Topics with equal partition counts and equal subscribers are split alike, so that partition n of both goes to the same
member, as joins need it. It is as sticky as the order of the members. Static members come first in the order, because
their instance ids survive a restart.
"""

from uuid import UUID

from tailrace.machines.group.assignor.assignor import Assignment, GroupSpec, MemberSpec

NAME = "range"


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Assign one range of each topic to each of its subscribers; the first subscribers get one partition more."""
    ordered = sorted(group.members.items(), key=_member_order)
    subscribers: dict[UUID, list[str]] = {}
    for member_id, member in ordered:
        for topic_id in member.topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id, _ in ordered}
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(group.partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + quota + (index < extra)
            if start < end:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _member_order(item: tuple[str, MemberSpec]) -> tuple[bool, str]:
    member_id, member = item
    return member.instance_id is None, member.instance_id or member_id
