"""Kafka's `roundrobin`: members get partitions of all topics in turn."""

from collections.abc import Mapping

from tailrace.client.group.assignor.assignor import NO_RACKS, Assigned, Member, PlainAssignor, Racks, wanted_partitions


class RoundRobinAssignor(PlainAssignor):
    """Skips members that do not subscribe to the topic."""

    name = "roundrobin"

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], _racks: Racks = NO_RACKS) -> Assigned:
        """Assign partitions in the order of topics and numbers; like Kafka's it ignores racks."""
        assigned: Assigned = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        turn = 0
        for target in wanted_partitions(members, partition_counts):
            while target[0] not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            assigned[ordered[turn].member_id].append(target)
            turn = (turn + 1) % len(ordered)
        return assigned
