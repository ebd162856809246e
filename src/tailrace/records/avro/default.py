"""Default values of fields: whether they fit their types, and how the normal form writes them."""

import re
import struct
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from tailrace.records.avro.json_text import dump, sorted_keys
from tailrace.records.avro.type import Array, Field, InvalidAvroSchema, Json, Map, Record, Type, Union, name_of

_SHOWN_LENGTH_MAX = 100
_BITS = {"int": 31, "long": 63}
_JAVA_DOUBLE = re.compile(
    r"\s*([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?\s*", re.ASCII
)


def validate_defaults(records: Iterable[Record]) -> None:
    """Reject records with a default that does not fit its field, or that contains itself without end."""
    uses: dict[Field, list[Field]] = {}
    for record in records:
        for field in record.fields:
            if not field.has_default:
                continue
            used = _defaults_used(field.type, field.default)
            if used is None:
                raise InvalidAvroSchema(
                    f"Field '{field.name}' of record '{record.name.full}': "
                    f"the default {_shown(field.default)} is not a valid {name_of(field.type)}"
                )
            if used:
                uses[field] = used
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        names = ", ".join(dict.fromkeys(f"'{field.name}'" for field in error.args[1]))
        raise InvalidAvroSchema(f"The defaults of fields contain each other without end: {names}") from None


def fits(type_: Type, value: Json) -> bool:
    """Return whether a value is a valid default of a type."""
    return _defaults_used(type_, value) is not None


def _shown(value: Json) -> str:
    text = dump(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"


def _defaults_used(type_: Type, value: Json) -> list[Field] | None:
    """Return the fields whose own defaults complete the value, or None if the value does not fit the type.

    A default of a union may fit any of its branches, as in Avro 1.12; older versions require the first.
    """
    if isinstance(type_, Union):
        for branch in type_.branches:
            if (used := _defaults_used(branch, value)) is not None:
                return used
        return None
    if isinstance(type_, Record):
        return _defaults_used_by_record(type_, value) if isinstance(value, dict) else None
    if isinstance(type_, Array):
        return _defaults_used_by_items(type_.items, value) if isinstance(value, list) else None
    if isinstance(type_, Map):
        return _defaults_used_by_items(type_.values, value.values()) if isinstance(value, dict) else None
    return [] if _is_scalar(type_.kind, value) else None


def _defaults_used_by_record(record: Record, value: dict[str, Json]) -> list[Field] | None:
    all_used: list[Field] = []
    for field in record.fields:
        if field.name in value:
            used = _defaults_used(field.type, value[field.name])
        else:
            used = [field] if field.has_default else None
        if used is None:
            return None
        all_used += used
    return all_used


def _defaults_used_by_items(type_: Type, items: Iterable[Json]) -> list[Field] | None:
    all_used: list[Field] = []
    for item in items:
        used = _defaults_used(type_, item)
        if used is None:
            return None
        all_used += used
    return all_used


def _is_scalar(kind: str, value: Json) -> bool:
    if kind in _BITS:
        return isinstance(value, int) and not isinstance(value, bool) and -1 <= value >> _BITS[kind] <= 0
    if kind in ("float", "double"):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    return isinstance(value, str)


def number_of(text: str) -> float | None:
    """Return the number that Java reads from a text: Avro allows such defaults for float and double."""
    match = _JAVA_DOUBLE.fullmatch(text)
    return float(match[1]) if match else None


def normalized_default(type_: Type, value: Json) -> Json:
    """Return the value as the normal form writes it: 1 as the default of a double is 1.0, and keys are sorted.

    A default that does not fit its type is kept.
    """
    if isinstance(type_, Union):
        fitting = (branch for branch in type_.branches if fits(branch, value))
        branch = next(fitting, None)
        return sorted_keys(value) if branch is None else normalized_default(branch, value)
    if isinstance(value, dict):
        value = sorted_keys(value)
        if isinstance(type_, Map) and isinstance(value, dict):
            return {key: normalized_default(type_.values, item) for key, item in value.items()}
        if isinstance(type_, Record) and isinstance(value, dict):
            types = {field.name: field.type for field in type_.fields}
            return {key: normalized_default(types[key], item) if key in types else item for key, item in value.items()}
    elif isinstance(value, list) and isinstance(type_, Array):
        return [normalized_default(type_.items, item) for item in value]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return _normalized_number(type_.kind, value)
    return value


def _normalized_number(kind: str, value: float) -> float:
    try:
        if kind == "double":
            return float(value)
        if kind == "float":
            return _shortest_float(value)
    except OverflowError:
        pass
    return value


def _shortest_float(value: float) -> float:
    """Return the decimal number with the fewest digits that means the same 32-bit float."""
    packed = struct.pack("<f", value)
    for digits in range(1, 9):
        shorter = float(f"{value:.{digits}g}")
        if struct.pack("<f", shorter) == packed:
            return shorter
    return float(f"{value:.9g}")
