"""The form of a compatibility case: a schema, what became of it, and the differences in both directions.

The differences are those that Confluent's registry found, recorded from its source of August 2026. Each is the kind and
the path. Where its release 8.3.1 found others, `released` has them: new reads old, and old reads new.
"""

from dataclasses import dataclass, field

from tailrace.schema.protobuf import ProtobufSchema, parse

Kinds = list[str]


@dataclass(frozen=True)
class Case:
    """Two versions of a schema. Texts and imports are proto3 unless `syntax` says otherwise; None adds nothing."""

    name: str
    old: str
    new: str
    syntax: str | None = "proto3"
    new_reads_old: Kinds = field(default_factory=list)
    old_reads_new: Kinds = field(default_factory=list)
    released: tuple[Kinds, Kinds] | None = None
    old_imports: dict[str, str] = field(default_factory=dict)
    new_imports: dict[str, str] = field(default_factory=dict)

    def schemas(self) -> tuple[ProtobufSchema, ProtobufSchema]:
        """Return both schemas, parsed."""
        head = f'syntax = "{self.syntax}"; ' if self.syntax else ""
        old, new = self.imports(self.old_imports), self.imports(self.new_imports)
        return parse(head + self.old, old), parse(head + self.new, new)

    def imports(self, texts: dict[str, str]) -> dict[str, str]:
        """Return imports as whole files."""
        return {name: f'syntax = "proto3"; {text}' for name, text in texts.items()}


def found(reader: ProtobufSchema, writer: ProtobufSchema) -> Kinds:
    """Return the kinds and paths of the differences that a reader's schema has to a writer's, each once."""
    return sorted({f"{difference.kind} {difference.path}" for difference in reader.differences(writer)})
