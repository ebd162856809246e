"""Avro's rules for schema resolution, for one pair of a reader's and a writer's type.

They are those of the specification and of Avro 1.12 for Java, and the kinds of problems have the names that Confluent's
registry reports. One rule is stricter: two decimals must have the same precision and scale. The specification says so,
but Avro for Java, and so Confluent's registry, ignores logical types and would read 1.23 as 12.3.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tailrace.records.avro.logical import decimal_of
from tailrace.records.avro.type import (
    PRIMITIVES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    name_of,
)

NAME_MISMATCH = "NAME_MISMATCH"
FIXED_SIZE_MISMATCH = "FIXED_SIZE_MISMATCH"
MISSING_ENUM_SYMBOLS = "MISSING_ENUM_SYMBOLS"
READER_FIELD_MISSING_DEFAULT_VALUE = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE_MISMATCH = "TYPE_MISMATCH"
MISSING_UNION_BRANCH = "MISSING_UNION_BRANCH"

_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_SHOWN_MAX = 20

_BranchKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason why the pair does not fit. `tokens` lead to it; `place` describes it where that is more exact."""

    kind: str
    tokens: tuple[str, ...]
    message: str
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """A pair of inner types that has to fit. `place` describes it; `{}` in it stands for the outer place."""

    tokens: tuple[str, ...]
    reader: Type
    writer: Type
    place: str = "{}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What has to hold for a pair to fit: no problems, and all demands, or one if `is_any_enough`."""

    steps: tuple[Problem | Demand, ...] = ()
    is_any_enough: bool = False

    @property
    def demands(self) -> Iterator[Demand]:
        return (step for step in self.steps if isinstance(step, Demand))

    @property
    def has_problem(self) -> bool:
        return any(isinstance(step, Problem) for step in self.steps)


_FITS = Verdict()


class Resolver:
    """The rules, with an index of each union: a search through its branches would make large unions expensive."""

    def __init__(self) -> None:
        self._indexes: dict[int, dict[_BranchKey, list[int]]] = {}

    def resolve(self, reader: Type, writer: Type) -> Verdict:
        """Apply the rules to a pair of types."""
        if isinstance(writer, Union):
            demands = (Demand((str(index),), reader, branch) for index, branch in enumerate(writer.branches))
            return Verdict(tuple(demands))
        if isinstance(reader, Union):
            return self._resolve_to_branch(reader, writer)
        return _resolve(reader, writer)

    def _resolve_to_branch(self, reader: Union, writer: Type) -> Verdict:
        """Find the branches of the reader's union that may fit. Only those with the writer's name or kind can."""
        candidates: list[Demand] = []
        for index in self._candidates(reader, writer):
            branch = reader.branches[index]
            if isinstance(branch, Primitive) and not _resolve(branch, writer).steps:
                return _FITS
            candidates.append(Demand((str(index),), branch, writer))
        if candidates:
            return Verdict(tuple(candidates), is_any_enough=True)
        branches = ", ".join(described(branch) for branch in reader.branches[:_SHOWN_MAX])
        message = f"the reader's union ({branches}) has no branch for the writer's {described(writer)}"
        return Verdict((Problem(MISSING_UNION_BRANCH, (), message),))

    def _candidates(self, reader: Union, writer: Type) -> Iterator[int]:
        index = self._indexes.get(id(reader))
        if index is None:
            index = self._indexes[id(reader)] = _index(reader)
        keys: tuple[_BranchKey, ...]
        if isinstance(writer, Named):
            keys = ((writer.kind, writer.name.simple), (writer.kind, "alias", writer.name.full))
        else:
            keys = ((writer.kind,), *((kind,) for kind in PRIMITIVES if writer.kind in _PROMOTIONS.get(kind, ())))
        found = itertools.chain.from_iterable(index.get(key, ()) for key in keys)
        return iter(dict.fromkeys(found))


def _index(union: Union) -> dict[_BranchKey, list[int]]:
    """Return the branches by what a writer's type can have in common with them."""
    index: dict[_BranchKey, list[int]] = {}
    for position, branch in enumerate(union.branches):
        keys: list[_BranchKey] = [(branch.kind,)]
        if isinstance(branch, Named):
            keys = [(branch.kind, branch.name.simple)]
            keys += [(branch.kind, "alias", alias.full) for alias in branch.aliases]
        for key in keys:
            index.setdefault(key, []).append(position)
    return index


def _resolve(reader: Type, writer: Type) -> Verdict:
    if isinstance(reader, Array) and isinstance(writer, Array):
        return Verdict((Demand(("items",), reader.items, writer.items, "an item of {}"),))
    if isinstance(reader, Map) and isinstance(writer, Map):
        return Verdict((Demand(("values",), reader.values, writer.values, "a value of {}"),))
    if isinstance(reader, Record) and isinstance(writer, Record):
        return Verdict((*_name_problems(reader, writer), *_field_steps(reader, writer)))
    if isinstance(reader, Enum) and isinstance(writer, Enum):
        return Verdict((*_name_problems(reader, writer), *_symbol_problems(reader, writer)))
    if isinstance(reader, Fixed) and isinstance(writer, Fixed):
        return Verdict((*_name_problems(reader, writer), *_size_problems(reader, writer), *_decimal(reader, writer)))
    if reader.kind == writer.kind:
        problems = tuple(_decimal(reader, writer))
        return Verdict(problems) if problems else _FITS
    if writer.kind in _PROMOTIONS.get(reader.kind, ()):
        return _FITS
    return Verdict((Problem(TYPE_MISMATCH, (), f"{described(writer)} cannot be read as {described(reader)}"),))


def described(type_: Type) -> str:
    """Return what a message calls a type."""
    return f"{type_.kind} '{name_of(type_)}'" if isinstance(type_, Named) else type_.kind


def _name_problems(reader: Named, writer: Named) -> Iterator[Problem]:
    """Compare names without their namespaces, as the specification says; an alias is compared with the full name."""
    if reader.name.simple != writer.name.simple and all(alias.full != writer.name.full for alias in reader.aliases):
        message = (
            f"the reader's {described(reader)} has neither the name nor an alias of the writer's {described(writer)}"
        )
        yield Problem(NAME_MISMATCH, ("name",), message)


def _size_problems(reader: Fixed, writer: Fixed) -> Iterator[Problem]:
    if reader.size != writer.size:
        message = f"the reader's {described(reader)} has {reader.size} bytes, the writer's {writer.size}"
        yield Problem(FIXED_SIZE_MISMATCH, ("size",), message)


def _decimal(reader: Type, writer: Type) -> Iterator[Problem]:
    reader_decimal, writer_decimal = decimal_of(reader), decimal_of(writer)
    if reader_decimal and writer_decimal and reader_decimal != writer_decimal:
        message = f"{writer_decimal} cannot be read as {reader_decimal}: precision and scale must be the same"
        yield Problem(TYPE_MISMATCH, (), message)


def _symbol_problems(reader: Enum, writer: Enum) -> Iterator[Problem]:
    missing = sorted(set(writer.symbols).difference(reader.symbols))
    if missing and reader.default is None:
        shown = ", ".join(missing[:_SHOWN_MAX]) + ("…" if len(missing) > _SHOWN_MAX else "")
        message = f"the reader's {described(reader)} has no default and lacks symbols of the writer's: {shown}"
        yield Problem(MISSING_ENUM_SYMBOLS, ("symbols",), message)


def _field_steps(reader: Record, writer: Record) -> Iterator[Problem | Demand]:
    writer_fields = {field.name: field for field in writer.fields}
    for index, field in enumerate(reader.fields):
        tokens = ("fields", str(index))
        place = f"field '{field.name}' of {described(reader)}"
        written = _written_fields(field, writer_fields)
        if len(written) > 1:
            names = ", ".join(f"'{name}'" for name in written)
            message = f"its name and aliases match several fields of the writer's schema: {names}"
            yield Problem(NAME_MISMATCH, tokens, message, place)
        elif written:
            if _is_trivial(field.type, written_type := writer_fields[written[0]].type):
                continue
            yield Demand((*tokens, "type"), field.type, written_type, place)
        elif not field.has_default:
            message = "it has no default value, and the writer's schema lacks the field"
            yield Problem(READER_FIELD_MISSING_DEFAULT_VALUE, tokens, message, place)


def _written_fields(field: Field, writer_fields: dict[str, Field]) -> list[str]:
    """Return the names of the writer's fields that the reader's field means."""
    if not field.aliases:
        return [field.name] if field.name in writer_fields else []
    return [name for name in dict.fromkeys((field.name, *field.aliases)) if name in writer_fields]


def _is_trivial(reader: Type, writer: Type) -> bool:
    """Return whether the types fit at first sight, which holds for most fields of large records."""
    return reader.kind == writer.kind and isinstance(reader, Primitive) and not reader.properties
