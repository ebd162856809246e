"""Kafka's `sticky` and `cooperative-sticky`: as even as subscriptions allow, with as few moves as possible.

First each member keeps the partitions that it owns. If two members claim a partition, the one of the newer
generation keeps it, and neither if the generations are equal. Then each free partition goes to the member that has
the fewest. Then partitions move from members to others that have at least two fewer, while that is possible.
If members have racks, a free partition goes to a member with a replica in its rack, as far as shares stay even
(KIP-881). Unlike Kafka's, the assignor moves no partition for the rack alone.

The cooperative one adds a rule: a partition that moves between two members is assigned to neither this time.
Its owner gives it up first, and the group rebalances once more (KIP-429).
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from struct import Struct

from tailrace.client.group.assignor.assignor import (
    NO_RACKS,
    Assigned,
    Claim,
    Member,
    Owned,
    Racks,
    do_racks_count,
    wanted_partitions,
)
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.consumer_protocol import NO_GENERATION, ConsumerProtocolTopicPartition, flatten, group_by_topic
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT32, array

_GENERATION = Struct(">i")


@message(versions="0-1")
class StickyAssignorUserData(Message):
    """The partitions that a member of an eager group had before it joined again."""

    previous_assignment: list[ConsumerProtocolTopicPartition] = wire(array(ConsumerProtocolTopicPartition), "0+")
    generation: int = wire(INT32, "1+", default=NO_GENERATION, ignorable=True)


class StickyAssignor:
    """The eager form: a member gives up its partitions before it joins, and sends them in its user data."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: tuple[Owned, ...], generation_id: int) -> bytes | None:
        """Return the partitions that the member had."""
        if not owned:
            return None
        return encode(StickyAssignorUserData(previous_assignment=group_by_topic(owned), generation=generation_id), 1)

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: Claim
    ) -> Member:
        """Return a member with the partitions in its user data; none if that cannot be decoded."""
        data = claim.user_data or b""
        for version in (1, 0):
            try:
                found, _ = decode(StickyAssignorUserData, data, version)
            except RemoteProtocolError:
                continue
            owned = tuple(flatten(found.previous_assignment))
            return Member(member_id, topics, group_instance_id, owned, found.generation, claim.rack_id)
        return Member(member_id, topics, group_instance_id, rack_id=claim.rack_id)

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
        """Assign with as few moves as balance needs."""
        return assign_sticky(members, partition_counts, racks)


class CooperativeStickyAssignor:
    """The cooperative form: a member keeps its partitions while it joins."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, _owned: tuple[Owned, ...], generation_id: int) -> bytes | None:
        """Return the generation, for leaders that do not know newer subscriptions."""
        return _GENERATION.pack(generation_id)

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: Claim
    ) -> Member:
        """Return a member with the partitions that it owns."""
        generation_id = claim.generation_id
        if generation_id == NO_GENERATION and claim.user_data and len(claim.user_data) >= _GENERATION.size:
            (generation_id,) = _GENERATION.unpack_from(claim.user_data)
        return Member(member_id, topics, group_instance_id, claim.owned, generation_id, claim.rack_id)

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
        """Assign, but leave out partitions that another member has yet to give up."""
        assigned = assign_sticky(members, partition_counts, racks)
        owners = {target: member.member_id for member in members for target in member.owned}
        return {
            member_id: [target for target in targets if owners.get(target, member_id) == member_id]
            for member_id, targets in assigned.items()
        }


def assign_sticky(members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
    """Return the partitions of each member."""
    ordered = sorted(members, key=lambda member: member.order)
    wanted = wanted_partitions(ordered, partition_counts)
    near = racks if do_racks_count(ordered, wanted, racks) else NO_RACKS
    shares = {member.member_id: _Share(member, near) for member in ordered}
    for target, member_id in _rightful_owners(ordered, set(wanted)).items():
        shares[member_id].add(target)
    free = set(wanted).difference(*(share.targets for share in shares.values()))
    by_topic = {
        topic: [share for share in shares.values() if topic in share.member.topics]
        for topic in dict.fromkeys(topic for topic, _ in wanted)
    }
    # Partitions with few possible members go first; their members might be full later.
    order = sorted(free, key=lambda target: (len(by_topic[target[0]]), target))
    if len({member.topics for member in ordered}) == 1:
        _deal_evenly(list(shares.values()), order)
    else:
        for target in order:
            _choose(by_topic[target[0]], target).add(target)
        _even_out(list(shares.values()), by_topic)
    return {member_id: sorted(share.targets) for member_id, share in shares.items()}


class _Share:
    """The share of a member."""

    __slots__ = ("_racks", "member", "targets")

    def __init__(self, member: Member, racks: Racks) -> None:
        self.member = member
        self.targets: set[Owned] = set()
        self._racks = racks

    @property
    def size(self) -> int:
        return len(self.targets)

    def add(self, target: Owned) -> None:
        self.targets.add(target)

    def is_near(self, target: Owned) -> bool:
        """Return whether a replica is in the member's rack; never if racks are ignored."""
        return self.member.rack_id in self._racks.get(target, ())


def _choose(shares: list[_Share], target: Owned) -> _Share:
    """Return the member for a partition: one of those with the fewest, if possible in a replica's rack."""
    return min(shares, key=lambda share: (share.size, not share.is_near(target)))


def _rightful_owners(members: Iterable[Member], wanted: set[Owned]) -> dict[Owned, str]:
    claims: dict[Owned, list[Member]] = defaultdict(list)
    for member in members:
        for target in dict.fromkeys(member.owned):
            if target in wanted and target[0] in member.topics:
                claims[target].append(member)
    owners = {}
    for target, claimants in claims.items():
        youngest = max(member.generation_id for member in claimants)
        rightful = [member for member in claimants if member.generation_id == youngest]
        if len(rightful) == 1:
            owners[target] = rightful[0].member_id
    return owners


def _deal_evenly(shares: list[_Share], free: list[Owned]) -> None:
    """Assign if all subscriptions are equal: equal shares, with one more for members that have it already."""
    total = len(free) + sum(share.size for share in shares)
    least, more = divmod(total, len(shares))
    rest = list(free)
    for share in sorted(shares, key=lambda share: -share.size):
        keep = least
        if more and share.size > least:
            keep += 1
            more -= 1
        surplus = sorted(share.targets)[keep:]
        share.targets.difference_update(surplus)
        rest += surplus
    rest = _deal_nearby(shares, rest, least, total % len(shares))
    heap = [(share.size, index) for index, share in enumerate(shares)]
    heapq.heapify(heap)
    for target in rest:
        size, index = heapq.heappop(heap)
        shares[index].add(target)
        heapq.heappush(heap, (size + 1, index))


def _deal_nearby(shares: list[_Share], free: list[Owned], least: int, more: int) -> list[Owned]:
    """Assign partitions within racks while members have room; returns the rest, for members with the most room."""
    more -= sum(share.size > least for share in shares)
    rest = []
    for target in free:
        near = [share for share in shares if share.size < least + (more > 0) and share.is_near(target)]
        if not near:
            rest.append(target)
            continue
        share = min(near, key=lambda share: share.size)
        share.add(target)
        more -= share.size > least
    return rest


def _even_out(shares: list[_Share], by_topic: Mapping[str, list[_Share]]) -> None:
    """Move single partitions while that evens shares; each move lowers the sum of squares, so it ends."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(shares, key=lambda share: -share.size):
            for target in sorted(giver.targets):
                taker = _choose(by_topic[target[0]], target)
                if giver.size - taker.size >= 2:
                    giver.targets.remove(target)
                    taker.add(target)
                    moved = True
