"""The declarations of a .proto file as they were written, before names are resolved.

A type stays the text of the file ("Order", ".shop.Order", "map<string, Order>"), because the canonical text keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

FIELD_NUMBER_MAX = 536_870_911
"""The largest number that the tag of a field can hold; `max` stands for it in ranges."""

_INTEGERS = {"fixed32", "fixed64", "int32", "int64", "sfixed32", "sfixed64", "sint32", "sint64", "uint32", "uint64"}
MAP_KEYS = _INTEGERS | {"bool", "string"}
"""The types that the keys of a map can have."""

SCALARS = MAP_KEYS | {"bytes", "double", "float"}

Range = tuple[int, int]
"""The first and the last number of a range."""


@dataclass(frozen=True, slots=True)
class Literal:
    """An option's value that is written without quotes: a number, true, false or the name of an enum constant."""

    text: str
    is_number: bool = False


OptionValue: TypeAlias = "str | Literal | dict[str, OptionValue] | list[OptionValue] | Option"
"""A quoted string, a literal, a message in braces, a list in brackets, or the option after a dot."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option; `is_custom` if its name stands in parentheses."""

    name: str
    value: OptionValue
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message, of a oneof, of a group or of an extend declaration."""

    label: str | None
    type: str
    name: str
    number: int
    default: str | None = None
    json_name: str | None = None
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """A field of proto2 whose message is declared in the same place."""

    label: str | None
    name: str
    number: int
    fields: tuple[Field, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class OneOf:
    """Fields of which at most one is set."""

    name: str
    fields: tuple[Field, ...]
    groups: tuple[Group, ...] = ()
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Reserved:
    """Numbers, ranges and names that must not be used."""

    values: tuple[int | str | Range, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Extensions:
    """Numbers of a message that other files may use for extensions."""

    values: tuple[int | Range, ...]
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Extend:
    """Fields that are added to a message from outside."""

    name: str
    fields: tuple[Field, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A name and a number of an enum."""

    name: str
    number: int
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum with its constants."""

    name: str
    constants: tuple[Constant, ...]
    reserved: tuple[Reserved, ...] = ()
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(slots=True, eq=False)
class Message:
    """A message with its fields and the types that are declared in it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    line: int = 0

    @property
    def is_map_entry(self) -> bool:
        """Whether the message stands for an entry of a map, as descriptors write maps."""
        return any(option.name == "map_entry" and option.value == Literal("true") for option in self.options)

    def map_type(self) -> str:
        """Return the type of the map whose entry this message is."""
        types = {entry.name: entry.type for entry in self.fields}
        return f"map<{types.get('key')}, {types.get('value')}>"


@dataclass(frozen=True, slots=True)
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    is_request_stream: bool = False
    is_response_stream: bool = False
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Service:
    """A service with its methods."""

    name: str
    rpcs: tuple[Rpc, ...]
    options: tuple[Option, ...] = ()
    line: int = 0


@dataclass(slots=True, eq=False)
class ProtoFile:
    """A whole .proto file. `syntax` is None if the file does not say, and then it is proto2."""

    syntax: str | None = None
    edition: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    weak_imports: list[str] = field(default_factory=list)
    types: list[Message | Enum] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    @property
    def needs_labels(self) -> bool:
        """Whether every field outside of a oneof has to have a label."""
        return self.edition is None and self.syntax != "proto3"

    def messages(self) -> Iterator[Message]:
        """Yield the messages at the top."""
        return (element for element in self.types if isinstance(element, Message))

    def every_import(self) -> list[str]:
        """Return the names of all imports."""
        return [*self.imports, *self.public_imports, *self.weak_imports]


def map_parts(type_name: str) -> tuple[str, str] | None:
    """Return the types of the keys and of the values of a map; None for any other type."""
    if not type_name.startswith("map<"):
        return None
    key, _, value = type_name[4:-1].partition(",")
    return key.strip(), value.strip()
