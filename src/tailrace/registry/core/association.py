"""Associations: which subject holds the schemas of a topic's keys or values.

A strong association owns its subject, which has no other one and goes with it. A frozen one can only be deleted
together with its subject. Weak associations may share a subject.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Any, NamedTuple

from tailrace.registry.core.entity import Entity

ANY_RESOURCE = "-"
"""The name or namespace that stands for all of them in a search."""
TOPIC = "topic"
ASSOCIATION_TYPES = ("key", "value")


class Lifecycle(StrEnum):
    """Whether a subject belongs to its resource."""

    STRONG = "STRONG"
    WEAK = "WEAK"


class AssociationKey(NamedTuple):
    """What the record of an association is known by, beside its subject."""

    resource_name: str
    resource_namespace: str
    resource_type: str
    association_type: str


class Association(Entity):
    """The subject of a topic's keys or values."""

    guid: str | None = None
    resource_name: str
    resource_namespace: str
    resource_id: str
    resource_type: str = TOPIC
    association_type: str
    subject: str
    lifecycle: Lifecycle
    frozen: bool = False
    update_ts: int | None = None

    @property
    def key(self) -> AssociationKey:
        """The key of the association's record."""
        return AssociationKey(self.resource_name, self.resource_namespace, self.resource_type, self.association_type)

    def to_record(self) -> dict[str, Any]:
        """Return the members that the topic keeps."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"update_ts"})


class Search(NamedTuple):
    """What associations must have to be found; an empty member takes any."""

    resource_id: str = ""
    resource_name: str = ""
    resource_namespace: str = ""
    resource_type: str = ""
    subject: str = ""
    association_types: Collection[str] = ()
    lifecycle: Lifecycle | None = None

    def finds(self, each: Association) -> bool:
        """Return whether an association is one of those that are looked for."""
        pairs = (
            (self.resource_id, each.resource_id),
            (self.resource_name, each.resource_name),
            (self.resource_namespace, each.resource_namespace),
            (self.resource_type, each.resource_type),
            (self.subject, each.subject),
        )
        return (
            all(wanted in ("", found) for wanted, found in pairs)
            and (not self.association_types or each.association_type in self.association_types)
            and self.lifecycle in (None, each.lifecycle)
        )
