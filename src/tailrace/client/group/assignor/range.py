"""Kafka's `range`: of each topic, neighbouring partitions to one member.

Topics with the same number of partitions and the same members are assigned alike, so the same member reads the same
keys. If members have racks, each first gets partitions with a replica in its rack (KIP-881); the numbers of
partitions stay the same, and topics are still assigned alike. The rest is assigned as without racks.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

from tailrace.client.group.assignor.assignor import NO_RACKS, Assigned, Member, PlainAssignor, Racks, do_racks_count


class RangeAssignor(PlainAssignor):
    """The first members get one partition more if a topic does not divide evenly."""

    name = "range"

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
        """Assign each topic by itself."""
        ordered = sorted(members, key=lambda member: member.order)
        topics = []
        for name, count in sorted(partition_counts.items()):
            wanting = [member for member in ordered if name in member.topics]
            if wanting and count:
                topics.append(_Topic(name, count, wanting, racks))
        if any(topic.do_racks_count for topic in topics):
            _divide_by_rack(topics)
        assigned: Assigned = {member.member_id: [] for member in members}
        for topic in topics:
            topic.divide(lambda _member, _index: True)
            for member_id, indexes in topic.given.items():
                assigned[member_id] += [(topic.name, index) for index in sorted(indexes)]
        return assigned


class _Topic:
    """A topic and its assignment so far."""

    def __init__(self, name: str, count: int, members: list[Member], racks: Racks) -> None:
        self.name = name
        self.count = count
        self.members = members
        self.given: dict[str, list[int]] = {member.member_id: [] for member in members}
        self._rest = list(range(count))
        self._least, self._more = divmod(count, len(members))
        self._racks = [racks.get((name, index), frozenset()) for index in range(count)]
        self.do_racks_count = do_racks_count(members, [(name, index) for index in range(count)], racks)

    def is_near(self, member: Member, index: int) -> bool:
        """Return whether a partition has a replica in the member's rack; always true if the rack is unknown."""
        return not member.rack_id or member.rack_id in self._racks[index]

    def room(self, member: Member) -> int:
        """Return how many more partitions a member may get; one more than the others only while some are left over."""
        return max(0, self._least + (self._more > 0) - len(self.given[member.member_id]))

    def give(self, member: Member, indexes: list[int]) -> None:
        """Assign partitions to a member."""
        given = self.given[member.member_id]
        given += indexes
        self._more -= len(given) > self._least
        self._rest = [index for index in self._rest if index not in indexes]

    def divide(self, may_have: Callable[[Member, int], bool]) -> None:
        """Give each member in turn the first partitions that it may have, up to its share."""
        for member in self.members:
            fitting = [index for index in self._rest if may_have(member, index)][: self.room(member)]
            if fitting:
                self.give(member, fitting)


def _divide_by_rack(topics: list[_Topic]) -> None:
    """Give partitions to members in the same rack, and the same ones of topics that are assigned alike."""
    alike: dict[tuple[frozenset[str], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        alike[frozenset(topic.given), topic.count].append(topic)
    for together in alike.values():
        if len(together) > 1:
            _divide_together(together)
        elif together[0].do_racks_count:
            together[0].divide(together[0].is_near)


def _divide_together(topics: list[_Topic]) -> None:
    if not any(member.rack_id for member in topics[0].members):
        return
    for index in range(topics[0].count):
        for member in topics[0].members:
            if all(topic.is_near(member, index) and topic.room(member) for topic in topics):
                for topic in topics:
                    topic.give(member, [index])
                break
