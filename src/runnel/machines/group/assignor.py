"""What a server-side assignor is told, what it answers, and which assignors there are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""The partitions of a member by topic; a topic without partitions is not in it."""

NOTHING: Assignment = {}


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: the existing topics it is subscribed to, and what the last target assignment gave it."""

    topics: frozenset[UUID]
    assigned: Assignment
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """All members by member id, and how many partitions each topic has that any of them is subscribed to."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[UUID, int]

    @property
    def homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""A pure function: every partition of every subscribed topic goes to exactly one subscriber."""
