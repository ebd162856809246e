"""A schema as a graph of nodes, in the shape in which two schemas are compared.

A schema that says several things at once becomes several nodes inside an `allOf`: its type with the constraints of
that type is one, each of `enum`, `const`, `not` and the combinations another. Constraints of a type that the schema
does not name have a node of their own. A node is compared with another node of the same class only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from tailrace.schema.json_schema.document import Json, sort_key

Criterion = Literal["allOf", "anyOf", "oneOf"]
Number = int | Decimal


@dataclass(eq=False, slots=True)
class Node:
    """What all nodes have. `source` is the JSON that the node was made of, if it stands for a whole schema."""

    source: Json = None
    has_default: bool = False
    connect_type: str | None = None

    def key(self) -> str:
        """Return a text that is equal for nodes made of the same JSON."""
        return f"#{id(self)}" if self.source is None else sort_key(self.source)


@dataclass(eq=False, slots=True)
class AnyValue(Node):
    """`true`, or a schema without any constraint."""


@dataclass(eq=False, slots=True)
class NoValue(Node):
    """`false`."""


@dataclass(eq=False, slots=True)
class BooleanValue(Node):
    """`type: boolean`."""


@dataclass(eq=False, slots=True)
class NullValue(Node):
    """`type: null`."""


@dataclass(eq=False, slots=True)
class StringValue(Node):
    """A string and its constraints."""

    length_min: int | None = None
    length_max: int | None = None
    pattern: str | None = None


@dataclass(eq=False, slots=True)
class NumberValue(Node):
    """A number and its constraints."""

    is_integer: bool = False
    minimum: Number | None = None
    maximum: Number | None = None
    above: Number | None = None
    below: Number | None = None
    multiple_of: Number | None = None


@dataclass(eq=False, slots=True)
class ObjectValue(Node):
    """An object and its constraints. `additional` is None if any further property is allowed."""

    properties: Mapping[str, Node] = field(default_factory=dict)
    patterns: Mapping[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: Node | Literal[False] | None = None
    unevaluated: Node | None = None
    required_with: Mapping[str, frozenset[str]] = field(default_factory=dict)
    schemas_with: Mapping[str, Node] = field(default_factory=dict)
    properties_min: int | None = None
    properties_max: int | None = None

    def is_open(self) -> bool:
        """Tell whether an object may hold any property that the schema does not name."""
        closed_by = isinstance(self.unevaluated, Node) and not isinstance(self.unevaluated, AnyValue)
        return self.additional is None and not self.patterns and not closed_by


@dataclass(eq=False, slots=True)
class ArrayValue(Node):
    """An array and its constraints. `additional` is None if any further item is allowed."""

    items: Node | None = None
    prefix: list[Node] = field(default_factory=list)
    additional: Node | Literal[False] | None = None
    unevaluated: Node | None = None
    items_min: int | None = None
    items_max: int | None = None
    is_unique: bool = False
    contains_min: Number | None = None
    contains_max: Number | None = None

    def is_open(self) -> bool:
        """Tell whether an array may go on with any items after those that the schema describes one by one."""
        return self.additional is None and (self.unevaluated is None or isinstance(self.unevaluated, AnyValue))


@dataclass(eq=False, slots=True)
class EnumValue(Node):
    """`enum`: its values as texts that are equal for equal values."""

    values: Mapping[str, Json] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class ConstValue(Node):
    """`const`."""

    value: str = ""


@dataclass(eq=False, slots=True)
class Negation(Node):
    """`not`."""

    inner: Node = field(default_factory=AnyValue)


@dataclass(eq=False, slots=True)
class Condition(Node):
    """`if`, `then` and `else`, which Confluent's registry does not compare."""


@dataclass(eq=False, slots=True)
class Combination(Node):
    """`allOf`, `anyOf`, `oneOf`, a list of types, or the several nodes of one schema."""

    criterion: Criterion = "allOf"
    parts: list[Node] = field(default_factory=list)
    is_one_schema: bool = False
    """Whether the parts are the several nodes of one schema."""


@dataclass(eq=False, slots=True)
class Reference(Node):
    """`$ref`. The target is known once the whole graph is built."""

    name: str = ""
    target: Node | None = None


def resolved(node: Node) -> Node:
    """Return the node at the end of a chain of references."""
    while isinstance(node, Reference) and node.target is not None:
        node = node.target
    return node
