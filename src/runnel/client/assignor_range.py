"""Kafka's `range`: of each topic, neighbouring partitions to one member.

Topics with as many partitions and the same members are divided alike, so what has the same key is
read by the same member. Racks play no part, where Kafka's would prefer replicas nearby.
"""

from collections.abc import Mapping

from runnel.client.assignor import Assigned, Member, PlainAssignor


class RangeAssignor(PlainAssignor):
    """The first members get one more where a topic does not divide evenly."""

    name = "range"

    def assign(self, members: list[Member], partition_counts: Mapping[str, int]) -> Assigned:
        """Divide each topic by itself."""
        assigned: Assigned = {member.member_id: [] for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        for topic, count in sorted(partition_counts.items()):
            wanting = [member for member in ordered if topic in member.topics]
            start = 0
            for index, member in enumerate(wanting):
                share = count // len(wanting) + (index < count % len(wanting))
                assigned[member.member_id] += [(topic, partition) for partition in range(start, start + share)]
                start += share
        return assigned
