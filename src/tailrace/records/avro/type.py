"""The types of a parsed Avro schema.

Types form a graph: a reference to a named type is the named type itself, so a recursive record contains itself. Types
are compared by identity.
"""

from dataclasses import dataclass, field

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Properties = dict[str, Json]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
RESERVED_WORDS = frozenset((*PRIMITIVES, "record", "enum", "array", "map", "union", "fixed"))


class InvalidAvroSchema(ValueError):
    """A text that is not an Avro schema. The message says where and why."""


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a record, enum or fixed."""

    simple: str
    namespace: str | None
    full: str

    @classmethod
    def of(cls, name: str, namespace: str | None) -> "Name":
        """Return the name as written, in `namespace` unless it has a namespace of its own."""
        own_namespace, dot, simple = name.rpartition(".")
        space = (own_namespace if dot else namespace) or None
        return cls(simple, space, f"{space}.{simple}" if space else simple)

    def qualified(self, namespace: str | None) -> str:
        """Return what names the type inside `namespace`: the short name where that is not ambiguous."""
        is_short = self.namespace is not None and self.namespace == namespace and self.simple not in RESERVED_WORDS
        return self.simple if is_short else self.full


@dataclass(eq=False, slots=True)
class Primitive:
    kind: str
    properties: Properties = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Array:
    items: "Type"
    properties: Properties = field(default_factory=dict)
    kind: str = "array"


@dataclass(eq=False, slots=True)
class Map:
    values: "Type"
    properties: Properties = field(default_factory=dict)
    kind: str = "map"


@dataclass(eq=False, slots=True)
class Union:
    branches: list["Type"]
    kind: str = "union"


@dataclass(eq=False, slots=True)
class Field:
    """A field of a record. `default` means something only if `has_default`, since null is a default too."""

    name: str
    type: "Type"
    doc: str | None
    has_default: bool
    default: Json
    order: str
    aliases: tuple[str, ...]
    properties: Properties


@dataclass(eq=False, slots=True)
class Record:
    name: Name
    doc: str | None
    is_error: bool
    fields: list[Field]
    aliases: tuple[Name, ...] = ()
    properties: Properties = field(default_factory=dict)
    kind: str = "record"


@dataclass(eq=False, slots=True)
class Enum:
    name: Name
    doc: str | None
    symbols: tuple[str, ...]
    default: str | None
    aliases: tuple[Name, ...] = ()
    properties: Properties = field(default_factory=dict)
    kind: str = "enum"


@dataclass(eq=False, slots=True)
class Fixed:
    name: Name
    doc: str | None
    size: int
    aliases: tuple[Name, ...] = ()
    properties: Properties = field(default_factory=dict)
    kind: str = "fixed"


@dataclass(eq=False, slots=True)
class Unresolved:
    """A name that was not defined yet where it was used. None is left when a schema has been parsed."""

    full: str
    place: str
    properties: Properties = field(default_factory=dict)
    kind: str = "unresolved"


Named = Record | Enum | Fixed
Type = Primitive | Array | Map | Union | Record | Enum | Fixed | Unresolved


def name_of(type_: Type) -> str:
    """Return what tells the branches of a union apart: the full name, or the kind of a type without a name."""
    return type_.name.full if isinstance(type_, Named) else type_.kind
