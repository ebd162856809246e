"""Changes between two schemas that break a reader, under the names that Confluent's registry gives them."""

from collections.abc import Generator
from dataclasses import dataclass, replace

from tailrace.schema.json_schema.document import Json
from tailrace.schema.json_schema.node import Node
from tailrace.schema.language import CompatibilityPolicy

Path = tuple[str, "Path"] | None
"""The way to a change, as its first segment and the rest."""

ALLOWED_WHEN_LENIENT = frozenset(
    {
        "ADDITIONAL_PROPERTIES_NARROWED",
        "ADDITIONAL_PROPERTIES_REMOVED",
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "UNEVALUATED_PROPERTIES_NARROWED",
        "UNEVALUATED_PROPERTIES_REMOVED",
    }
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change at a path, with what the writer and the reader say there, if a reader of the message needs it."""

    kind: str
    path: Path = None
    writer: Json = None
    reader: Json = None
    is_repeated: bool = False
    """Whether the change was found further up already, in a schema that contains itself."""

    def inside(self, *segments: str) -> "Change":
        """Return the same change as seen from further up."""
        path = self.path
        for segment in reversed(segments):
            path = (segment, path)
        return replace(self, path=path)

    def is_allowed(self, policy: CompatibilityPolicy) -> bool:
        """Tell whether a policy lets the change pass."""
        return policy is CompatibilityPolicy.LENIENT and self.kind in ALLOWED_WHEN_LENIENT


Changes = list[Change]

Pair = tuple[Node, Node]
"""A writer's node and the reader's node to compare with it."""

Step = Pair | int
"""A pair to compare, or an amount of other work, which counts as that many comparisons and finds no changes."""

Comparing = Generator[Step, Changes, Changes]
"""A comparison under way: it yields steps, receives the changes that each finds, and returns its own."""


def between(writer: Node | None, reader: Node | None, *path: str) -> Comparing:
    """Compare two nodes. A schema that only the reader has is a change; one that only the writer has is none."""
    if reader is None:
        return []
    if writer is None:
        return [Change("SCHEMA_ADDED").inside(*path)]
    changes = yield writer, reader
    return [change.inside(*path) for change in changes]
