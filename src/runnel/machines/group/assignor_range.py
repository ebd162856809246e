"""The `range` assignor: each topic is cut into ranges in the order of the members.

Topics with equal partition counts and equal subscribers are cut alike, so partition n of one and
partition n of the other go to the same member: what joins need. It is as sticky as the order of the
members, in which static members come first because their names survive a restart.
"""

from uuid import UUID

from runnel.machines.group.assignor import Assignment, GroupSpec, MemberSpec

NAME = "range"


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Give each subscriber of a topic one range of its partitions; the first get one more if need be."""
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
