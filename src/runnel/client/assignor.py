"""How the leader of a classic group divides partitions among its members: what every assignor has.

Pure: who is there, what they want and have, and how many partitions topics have go in; who gets what comes out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from runnel.protocol.consumer_protocol import NO_GENERATION

Owned: TypeAlias = tuple[str, int]
Assigned: TypeAlias = dict[str, list[Owned]]
Racks: TypeAlias = Mapping[Owned, frozenset[str]]
"""Where the replicas of partitions are, as far as that is known."""

NO_RACKS: Racks = {}


@dataclass(frozen=True, slots=True)
class Member:
    """A member as the leader sees it. `owned` is what it had in `generation_id`, if it says so."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[Owned, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None

    @property
    def order(self) -> tuple[bool, str]:
        """Static members first, each by its name that lasts, so that a restart changes nothing."""
        if self.group_instance_id is not None:
            return (False, self.group_instance_id)
        return (True, self.member_id)


class Assignor(Protocol):
    """A way to divide partitions, with Kafka's name for it."""

    @property
    def name(self) -> str:
        """The name that members agree on."""

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they have while they join."""

    def user_data(self, owned: tuple[Owned, ...], generation_id: int) -> bytes | None:
        """What a member tells the leader beside its subscription."""

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: "Claim"
    ) -> Member:
        """A member with what it has, wherever this assignor keeps that."""

    def assign(self, members: list[Member], partition_counts: Mapping[str, int], racks: Racks = NO_RACKS) -> Assigned:
        """Every partition of every topic that somebody wants, to one of those who want it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a subscription says of what its member has, and of where it is."""

    user_data: bytes | None = None
    owned: tuple[Owned, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class PlainAssignor:
    """What assignors without a memory have in common."""

    is_cooperative = False

    def user_data(self, _owned: tuple[Owned, ...], _generation_id: int) -> bytes | None:
        """Nothing."""
        return None

    def read_member(
        self, member_id: str, group_instance_id: str | None, topics: frozenset[str], claim: Claim
    ) -> Member:
        """A member; what it has does not matter."""
        return Member(member_id, topics, group_instance_id, rack_id=claim.rack_id)


def do_racks_count(members: Iterable[Member], targets: Iterable[Owned], racks: Racks) -> bool:
    """Whether who gets what makes a difference: some partitions are nearer to some members than others (KIP-881)."""
    places = [racks.get(target, frozenset()) for target in targets]
    everywhere = frozenset[str]().union(*places)
    theirs = {member.rack_id for member in members if member.rack_id}
    return not everywhere.isdisjoint(theirs) and any(place != everywhere for place in places)


def wanted_partitions(members: list[Member], partition_counts: Mapping[str, int]) -> list[Owned]:
    """The partitions of all topics that somebody wants and that are there, in order."""
    topics = sorted(frozenset[str]().union(*(member.topics for member in members)))
    return [(topic, partition) for topic in topics for partition in range(partition_counts.get(topic, 0))]
