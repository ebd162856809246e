"""Checks of numbers and names that protobuf's compiler makes, with messages that name the place."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tailrace.base.sentinel import INT32_MAX
from tailrace.schema.language import InvalidSchema
from tailrace.schema.protobuf.element import (
    FIELD_NUMBER_MAX,
    MAP_KEYS,
    Enum,
    Extensions,
    Field,
    Group,
    Literal,
    Message,
    Option,
    ProtoFile,
    Range,
    Reserved,
)

_INTERNAL_NUMBERS = range(19_000, 20_000)
"""Numbers that protobuf keeps for its own use."""


def check_file(file: ProtoFile) -> None:
    """Raise `InvalidSchema` for the first number or name that is used wrongly."""
    names = _Names(f"package {file.package}" if file.package else "the file")
    for service in file.services:
        names.add(service.name, service.line)
    for element in file.types:
        names.add(element.name, element.line)
        _check_type(element, f"{file.package}.{element.name}" if file.package else element.name, file)


def _check_type(element: Message | Enum, name: str, file: ProtoFile) -> None:
    if isinstance(element, Enum):
        _check_enum(element, name, is_open=file.syntax == "proto3")
        return
    _check_message(element, name)
    for nested in element.types:
        _check_type(nested, f"{name}.{nested.name}", file)


def _check_message(message: Message, name: str) -> None:
    place = f"message {name}"
    if message.is_map_entry:
        _check_map_entry(message, place)
    names = _Names(place)
    fields: list[Field | Group] = [*message.fields, *message.groups]
    for oneof in message.oneofs:
        names.add(oneof.name, oneof.line)
        if not oneof.fields and not oneof.groups:
            raise _error(oneof.line, f"{place}: oneof {oneof.name} has no fields")
        fields += [*oneof.fields, *oneof.groups]
    for nested in message.types:
        names.add(nested.name, nested.line)
    reserved = sorted(_ranges(message.reserved, place, 1, FIELD_NUMBER_MAX))
    extensions = sorted(_ranges(message.extensions, place, 1, FIELD_NUMBER_MAX))
    _check_apart(sorted([*reserved, *extensions]), place, message.line)
    _check_fields(fields, place, reserved, extensions, _reserved_names(message.reserved))
    for field in fields:
        if isinstance(field, Group):
            _check_fields(field.fields, f"group {name}.{field.name}", [], [], set())
        else:
            names.add(field.name, field.line)


def _check_map_entry(message: Message, place: str) -> None:
    fields = [(field.name, field.number) for field in message.fields]
    if sorted(fields) != [("key", 1), ("value", 2)] or message.oneofs or message.groups:
        raise _error(message.line, f"{place}: the entry of a map has the fields key = 1 and value = 2 and no others")
    key = next(field.type for field in message.fields if field.name == "key")
    if key not in MAP_KEYS:
        raise _error(message.line, f"{place}: the keys of a map must be integers, strings or bool, and not {key[:100]}")


def _check_fields(
    fields: Iterable[Field | Group], place: str, reserved: list[Range], extensions: list[Range], names: set[str]
) -> None:
    by_number: dict[int, str] = {}
    for field in fields:
        where = f"{place}: field '{field.name}'"
        number = field.number
        if not 1 <= number <= FIELD_NUMBER_MAX:
            raise _error(field.line, f"{where} has number {number}, which is not between 1 and {FIELD_NUMBER_MAX}")
        if number in _INTERNAL_NUMBERS:
            raise _error(field.line, f"{where} has number {number}, but protobuf keeps 19000 to 19999 for itself")
        if number in by_number:
            raise _error(field.line, f"{where} has number {number}, which field '{by_number[number]}' has already")
        if _within(number, reserved):
            raise _error(field.line, f"{where} has number {number}, which is reserved")
        if _within(number, extensions):
            raise _error(field.line, f"{where} has number {number}, which is declared for extensions")
        if field.name in names:
            raise _error(field.line, f"{where} has a reserved name")
        by_number[number] = field.name


def _check_enum(element: Enum, name: str, *, is_open: bool) -> None:
    place = f"enum {name}"
    if not element.constants:
        raise _error(element.line, f"{place} has no constants")
    if is_open and element.constants[0].number != 0:
        raise _error(element.constants[0].line, f"{place}: the first constant of an enum of proto3 must be 0")
    reserved = sorted(_ranges(element.reserved, place, -INT32_MAX - 1, INT32_MAX))
    _check_apart(reserved, place, element.line)
    names = _Names(place)
    reserved_names = _reserved_names(element.reserved)
    by_number: dict[int, str] = {}
    for constant in element.constants:
        where = f"{place}: constant {constant.name}"
        names.add(constant.name, constant.line)
        if _within(constant.number, reserved):
            raise _error(constant.line, f"{where} has number {constant.number}, which is reserved")
        if constant.name in reserved_names:
            raise _error(constant.line, f"{where} has a reserved name")
        other = by_number.setdefault(constant.number, constant.name)
        if other != constant.name and not _allows_alias(element.options):
            raise _error(
                constant.line,
                f"{where} has number {constant.number}, which {other} has already; set allow_alias if both are meant",
            )


def _allows_alias(options: Iterable[Option]) -> bool:
    return any(option.name == "allow_alias" and option.value == Literal("true") for option in options)


def _ranges(elements: Iterable[Reserved | Extensions], place: str, lowest: int, highest: int) -> Iterator[Range]:
    for element in elements:
        for value in element.values:
            if isinstance(value, str):
                continue
            start, end = value if isinstance(value, tuple) else (value, value)
            if not lowest <= start <= end <= highest:
                raise _error(element.line, f"{place}: the range {start} to {end} is not valid")
            yield start, end


def _check_apart(ranges: list[Range], place: str, line: int) -> None:
    for (start, end), (next_start, next_end) in pairwise(ranges):
        if next_start <= end:
            raise _error(line, f"{place}: the ranges {start} to {end} and {next_start} to {next_end} overlap")


def _within(number: int, ranges: list[Range]) -> bool:
    """Return whether a number lies in one of the ranges, which are in order and apart."""
    place = bisect_right(ranges, (number, INT32_MAX))
    return place > 0 and number <= ranges[place - 1][1]


def _reserved_names(elements: Iterable[Reserved]) -> set[str]:
    return {value for element in elements for value in element.values if isinstance(value, str)}


class _Names:
    """The names that are declared in one place, each of which may be used once."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._names: set[str] = set()

    def add(self, name: str, line: int) -> None:
        """Add a name that has to be new."""
        if name in self._names:
            raise _error(line, f"{self._place}: the name '{name}' is used twice")
        self._names.add(name)


def _error(line: int, message: str) -> InvalidSchema:
    """Return an error with its line, which declarations from a descriptor do not have."""
    return InvalidSchema(f"line {line}: {message}" if line else message)
