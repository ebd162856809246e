"""Kafka's `roundrobin`: all partitions of all topics dealt out in turn."""

from collections.abc import Mapping

from runnel.client.assignor import NO_RACKS, Assigned, Member, PlainAssignor, Racks, wanted_partitions


class RoundRobinAssignor(PlainAssignor):
    """A member that does not want a topic is passed over."""

    name = "roundrobin"

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], _racks: Racks = NO_RACKS) -> Assigned:
        """Deal out the partitions in the order of topics and numbers; Kafka's does not look at racks, either."""
        assigned: Assigned = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        turn = 0
        for target in wanted_partitions(members, partition_counts):
            while target[0] not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            assigned[ordered[turn].member_id].append(target)
            turn = (turn + 1) % len(ordered)
        return assigned
