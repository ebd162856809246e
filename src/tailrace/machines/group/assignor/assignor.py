"""The interface of server-side assignors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic, without the topics of which it has none."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: the existing topics that it is subscribed to, and its last target."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """All members by member id, and the partition counts of the topics that they are subscribed to."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[UUID, int]

    @property
    def homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""A pure function that assigns every partition of every subscribed topic to exactly one subscriber."""
