"""The plan by which Avro values become an Arrow column: a node for each type of the schema.

| Avro | Arrow |
| --- | --- |
| record | struct |
| array, map | list, map |
| enum | string |
| union of null and one type | that type, nullable |
| any other union | struct with a field for each branch but null: `member0`, `member1`, …; one of them is set |
| decimal of up to 38 digits | decimal128 |
| date, time and timestamp types | the Arrow type of the same unit; local timestamps have no time zone |

Other logical types are those that they annotate. A recursive schema has no Arrow type.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from tailrace.records.arrow.schema import pa
from tailrace.records.avro.logical import decimal_of, logical_type_of
from tailrace.records.avro.type import Array, Enum, Fixed, Map, Primitive, Record, Type, Union, name_of

DECIMAL_PRECISION_MAX = 38


class Op(IntEnum):
    """How a node is read."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    FIXED = 7
    ENUM = 8
    RECORD = 9
    ARRAY = 10
    MAP = 11
    UNION = 12
    DECIMAL = 13
    DECIMAL_FIXED = 14


class Fault(IntEnum):
    """Why a value cannot be read or written."""

    FRAME = 1
    TRUNCATED = 2
    LEFTOVER = 3
    BAD_NUMBER = 4
    BAD_LENGTH = 5
    BAD_BRANCH = 6
    BAD_SYMBOL = 7
    BAD_BOOLEAN = 8
    BAD_DECIMAL = 9
    TOO_LARGE = 10
    NO_MEMORY = 11
    BAD_TEXT = 12
    NOT_NULL = 13

    @property
    def text(self) -> str:
        """What an error says of the value."""
        return _TEXTS[self]


_TEXTS = {
    Fault.FRAME: "it does not begin with 0 and the id of the schema",
    Fault.TRUNCATED: "it ends before its schema does",
    Fault.LEFTOVER: "it has bytes after its end",
    Fault.BAD_NUMBER: "a number is out of range",
    Fault.BAD_LENGTH: "a length is negative",
    Fault.BAD_BRANCH: "a union has no such branch",
    Fault.BAD_SYMBOL: "an enum has no such symbol",
    Fault.BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    Fault.BAD_DECIMAL: "a decimal has more than 16 bytes",
    Fault.TOO_LARGE: "a column would have more than 2 GiB or 2^31 entries",
    Fault.NO_MEMORY: "there is not enough memory",
    Fault.BAD_TEXT: "a string is not UTF-8",
    Fault.NOT_NULL: "a field that cannot be null is null",
}


class UnsupportedAvroType(TypeError):
    """A schema that Arrow columns cannot hold. The message names the type."""


class Node(NamedTuple):
    """A type of the schema. `argument` is the size of a fixed, the symbols of an enum, or the least size of an item."""

    op: Op
    argument: int
    null_branch: int  # negative if the value cannot be null
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A node with its Arrow type and the types below, for assembling the buffers."""

    index: int
    op: Op
    type: Any  # pyarrow.DataType
    names: tuple[str, ...]  # of fields, or the symbols of an enum
    children: "tuple[Column, ...]"
    size_min: int

    @property
    def is_text(self) -> bool:
        """Whether the bytes of the column have to be UTF-8."""
        return bool(pa.types.is_string(self.type))


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes in the order in which they are read, and the column of the first."""

    nodes: tuple[Node, ...]
    column: Column


_PRIMITIVES = {
    "null": (Op.NULL, pa.null(), 0),
    "boolean": (Op.BOOLEAN, pa.bool_(), 1),
    "int": (Op.INT, pa.int32(), 1),
    "long": (Op.LONG, pa.int64(), 1),
    "float": (Op.FLOAT, pa.float32(), 4),
    "double": (Op.DOUBLE, pa.float64(), 8),
    "bytes": (Op.BYTES, pa.binary(), 1),
    "string": (Op.BYTES, pa.string(), 1),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def make_plan(type_: Type) -> Plan:
    """Compile a schema. Raise `UnsupportedAvroType` if it is recursive."""
    planner = _Planner()
    column = planner.add(type_)
    return Plan(tuple(node for node in planner.nodes if node is not None), column)


class _Planner:
    def __init__(self) -> None:
        self.nodes: list[Node | None] = []
        self._outer: list[Record] = []

    def add(self, type_: Type, null_branch: int = -1) -> Column:
        if isinstance(type_, Union):
            branches = [branch for branch in type_.branches if branch.kind != "null"]
            null_branch = next((i for i, branch in enumerate(type_.branches) if branch.kind == "null"), -1)
            if len(branches) == 1 and null_branch >= 0:
                return self.add(branches[0], null_branch)
            if not branches:
                return self._container(Op.UNION, type_, null_branch, {})
            members = {f"member{index}": branch for index, branch in enumerate(branches)}
            return self._container(Op.UNION, type_, null_branch, members)
        if isinstance(type_, Record):
            if type_ in self._outer:
                raise UnsupportedAvroType(f"record {name_of(type_)!r} contains itself, which Arrow columns cannot hold")
            self._outer.append(type_)
            fields = {field.name: field.type for field in type_.fields}
            column = self._container(Op.RECORD, type_, null_branch, fields)
            self._outer.pop()
            return column
        if isinstance(type_, Array):
            return self._container(Op.ARRAY, type_, null_branch, {"element": type_.items})
        if isinstance(type_, Map):
            return self._container(Op.MAP, type_, null_branch, {"key": Primitive("string"), "value": type_.values})
        return self._leaf(type_, null_branch)

    def _container(self, op: Op, type_: Type, null_branch: int, inner: dict[str, Type]) -> Column:
        index = len(self.nodes)
        self.nodes.append(None)
        children = tuple(self.add(child) for child in inner.values())
        sizes = sum(child.size_min for child in children)
        is_list = op in (Op.ARRAY, Op.MAP)
        size_min = 1 if is_list or op is Op.UNION or null_branch >= 0 else sizes
        self.nodes[index] = Node(op, sizes if is_list else 0, null_branch, tuple(child.index for child in children))
        return Column(index, op, _arrow_type(op, tuple(inner), children), tuple(inner), children, size_min)

    def _leaf(self, type_: Type, null_branch: int) -> Column:
        op, arrow_type, size_min, argument, names = _describe(type_)
        index = len(self.nodes)
        self.nodes.append(Node(op, argument, null_branch, ()))
        return Column(index, op, arrow_type, names, (), 1 if null_branch >= 0 else size_min)


def _arrow_type(op: Op, names: tuple[str, ...], children: tuple[Column, ...]) -> Any:
    if op is Op.ARRAY:
        return pa.list_(pa.field("element", children[0].type))
    if op is Op.MAP:
        return pa.map_(pa.string(), children[1].type)
    return pa.struct([(name, child.type) for name, child in zip(names, children, strict=True)])


def _describe(type_: Type) -> tuple[Op, Any, int, int, tuple[str, ...]]:
    """Return how a type without inner types is read: operation, Arrow type, least size, argument, symbols."""
    decimal = decimal_of(type_)
    is_decimal = decimal is not None and decimal.precision <= DECIMAL_PRECISION_MAX
    if isinstance(type_, Enum):
        return Op.ENUM, pa.string(), 1, len(type_.symbols), type_.symbols
    if isinstance(type_, Fixed):
        arrow_type = (
            pa.decimal128(decimal.precision, decimal.scale) if decimal and is_decimal else pa.binary(type_.size)
        )
        return (Op.DECIMAL_FIXED if is_decimal else Op.FIXED), arrow_type, type_.size, type_.size, ()
    if decimal and is_decimal:
        return Op.DECIMAL, pa.decimal128(decimal.precision, decimal.scale), 1, 0, ()
    op, arrow_type, size_min = _PRIMITIVES[type_.kind]
    return op, _LOGICAL.get(logical_type_of(type_) or "", arrow_type), size_min, 0, ()
