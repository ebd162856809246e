"""A schema as a registry returns it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.schema.language import Imports, Reference, SchemaType


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema that a client wants to register, look up or check."""

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the body of a request. Registries of old know no type but Avro, so that is left out."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type is not SchemaType.AVRO:
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in self.references
            ]
        return body


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A registered schema. `subject` and `version` are None if it was found by its id alone.

    `imports` has the text of each schema that it refers to, directly or not, by the name of the reference.
    """

    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None
    imports: Imports = field(default_factory=dict, compare=False)


def read_references(members: Mapping[str, Any]) -> tuple[Reference, ...]:
    """Return the references of an answer."""
    found: Sequence[Mapping[str, Any]] = members.get("references") or ()
    return tuple(Reference(each["name"], each["subject"], each["version"]) for each in found)


def read_type(members: Mapping[str, Any]) -> SchemaType:
    """Return the type of an answer, which leaves out Avro."""
    return SchemaType(members.get("schemaType") or SchemaType.AVRO)
