"""The interface of assignors, with which the leader of a classic group assigns partitions to its members.

An assignor is pure: from members, subscriptions and numbers of partitions it computes an assignment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tailrace.protocol.consumer_protocol import NO_GENERATION

Owned: TypeAlias = tuple[str, int]
Assigned: TypeAlias = dict[str, list[Owned]]
Racks: TypeAlias = Mapping[Owned, frozenset[str]]
"""Where the replicas of partitions are, as far as that is known."""

NO_RACKS: Racks = {}


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the leader sees it. `owned` are its partitions in `generation_id`, if it sends them."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[Owned, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Sort key: static members first, by their instance ids, so that a restart changes nothing."""
        if self.group_instance_id is not None:
            return (False, self.group_instance_id)
        return (True, self.member_id)


class Assignor(Protocol):
    """An assignment strategy under Kafka's name."""

    @property
    def name(self) -> str:
        """Kafka's name of the strategy."""

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their partitions while they join."""

    def user_data(self, owned: tuple[Owned, ...], generation_id: int) -> bytes | None:
        """Return what a member sends to the leader beside its subscription."""

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: "Claim"
    ) -> Member:
        """Return a member with its owned partitions, which each assignor keeps in its own place."""

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
        """Assign each partition of each subscribed topic to one of its subscribers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The owned partitions and the rack in a member's subscription."""

    user_data: bytes | None = None
    owned: tuple[Owned, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class PlainAssignor:
    """The base of assignors that ignore earlier assignments."""

    is_cooperative = False

    def user_data(self, _owned: tuple[Owned, ...], _generation_id: int) -> bytes | None:
        """Return nothing."""
        return None

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: Claim
    ) -> Member:
        """Return a member without owned partitions."""
        return Member(member_id, topics, group_instance_id, rack_id=claim.rack_id)


def do_racks_count(members: Iterable[Member], targets: Iterable[Owned], racks: Racks) -> bool:
    """Return whether racks matter: some partitions have replicas in the racks of only some members (KIP-881)."""
    places = [racks.get(target, frozenset()) for target in targets]
    everywhere = frozenset[str]().union(*places)
    theirs = {member.rack_id for member in members if member.rack_id}
    return not everywhere.isdisjoint(theirs) and any(place != everywhere for place in places)


def wanted_partitions(members: list[Member], partition_counts: Mapping[str, int]) -> list[Owned]:
    """Return the partitions of all subscribed topics that exist, in order."""
    topics = sorted(frozenset[str]().union(*(member.topics for member in members)))
    return [(topic, partition) for topic in topics for partition in range(partition_counts.get(topic, 0))]
