"""The `uniform` assignor: shares that differ by one partition at most, with as few moves as possible.

When all members are subscribed to the same topics, the share of a member is the partition count divided by the member
count, and the remainder gives some members one partition more. Each member keeps its partitions up to its share, and
the others go to the members below their shares.

When subscriptions differ, partitions without an owner go to the subscriber with the fewest partitions, the topics that
are hardest to place first. Then partitions of each topic move from the subscriber with the most to the one with the
fewest while that helps. The loads of the subscribers of one topic differ by one at most; over several topics the
assignment is good, not always the best one, as in Kafka. Racks are not considered, as in Kafka.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from uuid import UUID

from tailrace.machines.group.assignor.assignor import Assignment, GroupSpec

NAME = "uniform"

BALANCE_ROUNDS_MAX = 16
"""The most rounds over all topics, after which the balance is good enough; Kafka's value."""

TopicPartition = tuple[UUID, int]


def assign_uniform(group: GroupSpec) -> dict[str, Assignment]:
    """Assign all partitions evenly to the members."""
    if group.homogeneous:
        return _assign_homogeneous(group)
    return _Balance(group).assign()


def _assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    member_ids = sorted(group.members)
    if not member_ids:
        return {}
    topics = sorted(group.members[member_ids[0]].topics)
    everything = {(topic, index) for topic in topics for index in range(group.partition_counts[topic])}
    quota, extra = divmod(len(everything), len(member_ids))
    kept = {member_id: _owned(group, member_id, everything) for member_id in member_ids}
    # Members that own more than the quotient are the first to get a partition of the remainder.
    shares = {}
    for member_id in sorted(member_ids, key=lambda member_id: len(kept[member_id]) <= quota):
        shares[member_id] = quota + (extra > 0)
        extra = max(0, extra - 1)
    for member_id in member_ids:
        del kept[member_id][shares[member_id] :]
    free = iter(sorted(everything.difference(*kept.values())))
    for member_id in member_ids:
        missing = shares[member_id] - len(kept[member_id])
        kept[member_id].extend(next(free) for _ in range(missing))
    return {member_id: _by_topic(partitions) for member_id, partitions in kept.items()}


def _owned(group: GroupSpec, member_id: str, wanted: set[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions among `wanted` that a member owns, in order."""
    assigned = group.members[member_id].assigned
    return sorted((topic, index) for topic, parts in assigned.items() for index in parts if (topic, index) in wanted)


def _by_topic(partitions: Iterable[TopicPartition]) -> Assignment:
    topics: dict[UUID, set[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(parts) for topic, parts in topics.items()}


class _Balance:
    """The assignment in the making when subscriptions differ."""

    def __init__(self, group: GroupSpec) -> None:
        self.group = group
        self.subscribers: dict[UUID, list[str]] = {}
        for member_id in sorted(group.members):
            for topic in group.members[member_id].topics:
                self.subscribers.setdefault(topic, []).append(member_id)
        self.loads = dict.fromkeys(sorted(group.members), 0)
        self.owned: dict[UUID, dict[str, list[int]]] = {}
        for topic in self.subscribers:
            self._load_owned(topic)

    def _load_owned(self, topic: UUID) -> None:
        """Begin with the partitions of a topic that its subscribers own."""
        count = self.group.partition_counts[topic]
        self.owned[topic] = {}
        for member_id in self.subscribers[topic]:
            parts = sorted(index for index in self.group.members[member_id].assigned.get(topic, ()) if index < count)
            self.owned[topic][member_id] = parts
            self.loads[member_id] += len(parts)

    def assign(self) -> dict[str, Assignment]:
        topics = sorted(self.subscribers, key=self._hardness)
        for topic in topics:
            self._give_away(topic)
        contested = [topic for topic in topics if len(self.subscribers[topic]) > 1]
        for _ in range(BALANCE_ROUNDS_MAX):
            if not sum([self._balance(topic) for topic in contested]):
                break
        assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in self.loads}
        for topic, owners in self.owned.items():
            for member_id, parts in owners.items():
                if parts:
                    assigned[member_id][topic] = frozenset(parts)
        return dict(assigned)

    def _hardness(self, topic: UUID) -> tuple[float, int, UUID]:
        """Order topics by partitions per subscriber, most first, then by subscribers, fewest first."""
        subscriber_count = len(self.subscribers[topic])
        return -self.group.partition_counts[topic] / subscriber_count, subscriber_count, topic

    def _give_away(self, topic: UUID) -> None:
        """Assign partitions without an owner to the subscribers with the fewest partitions."""
        owners = self.owned[topic]
        taken = {index for parts in owners.values() for index in parts}
        least = [(self.loads[member_id], member_id) for member_id in self.subscribers[topic]]
        heapify(least)
        for index in range(self.group.partition_counts[topic]):
            if index not in taken:
                load, member_id = least[0]
                heapreplace(least, (load + 1, member_id))
                owners[member_id].append(index)
                self.loads[member_id] = load + 1

    def _balance(self, topic: UUID) -> int:
        """Move partitions of one topic from subscribers with many to those with few; return the number of moves."""
        owners, loads = self.owned[topic], self.loads
        least = [(loads[member_id], member_id) for member_id in self.subscribers[topic]]
        most = [(-loads[member_id], member_id) for member_id in self.subscribers[topic] if owners[member_id]]
        heapify(least)
        heapify(most)
        moves = 0
        while most:
            # A load in a heap may be out of date: too high for a giver among the least, too low for a taker among
            # the most. Neither hides a move, since a giver stays above its taker, and a taker was the least.
            (_, giver), (load, taker) = most[0], least[0]
            if loads[giver] - load <= 1:
                break
            owners[taker].append(owners[giver].pop())
            loads[giver] -= 1
            loads[taker] += 1
            moves += 1
            heapreplace(least, (loads[taker], taker))
            heappop(most)
            if owners[giver]:
                heappush(most, (-loads[giver], giver))
        return moves
