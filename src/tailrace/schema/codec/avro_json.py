"""Avro values as JSON that a person writes and reads.

A union needs no type around its value, but may have it as in Avro's own JSON (`{"string": "a"}`). Bytes are text whose
characters are the bytes, as there. Dates, times and timestamps are ISO 8601 or numbers; decimals are numbers or text.
"""

import datetime
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from tailrace.records.avro.logical import decimal_of, logical_type_of
from tailrace.records.avro.type import Array, Enum, Fixed, Map, Record, Type, Union, name_of
from tailrace.schema.codec.avro_default import tagged

_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
}


class NotThisType(ValueError):
    """A JSON value that is not one of an Avro type. The message says where."""


def from_json(type_: Type, value: Any, place: str = "") -> Any:
    """Return the value for fastavro. Raise `NotThisType` if the JSON does not fit."""
    if isinstance(type_, Union):
        return _from_union(type_, value, place)
    if isinstance(type_, Record) and isinstance(value, dict):
        types = {field.name: field.type for field in type_.fields}
        for name in value.keys() - types.keys():
            raise NotThisType(f"{place}/{name}: record {name_of(type_)!r} has no such field")
        return {name: from_json(types[name], each, f"{place}/{name}") for name, each in value.items()}
    if isinstance(type_, Array) and isinstance(value, list):
        return [from_json(type_.items, each, f"{place}/{index}") for index, each in enumerate(value)]
    if isinstance(type_, Map) and isinstance(value, dict):
        return {name: from_json(type_.values, each, f"{place}/{name}") for name, each in value.items()}
    if isinstance(type_, Enum) and value in type_.symbols:
        return value
    return _from_scalar(type_, value, place)


def _from_union(type_: Union, value: Any, place: str) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        for branch in type_.branches:
            if name_of(branch) == name:
                return tagged(branch, from_json(branch, inner, place))
    problems = []
    for branch in type_.branches:
        try:
            return tagged(branch, from_json(branch, value, place))
        except NotThisType as error:
            problems.append(error)
    detailed = [problem for problem in problems if str(problem).partition(":")[0] != (place or "/")]
    if detailed:
        raise detailed[0]
    names = ", ".join(name_of(branch) for branch in type_.branches)
    raise NotThisType(f"{place or '/'}: {value!r} is none of {names}")


def _from_scalar(type_: Type, value: Any, place: str) -> Any:
    logical = logical_type_of(type_) or ""
    try:
        if decimal_of(type_) is not None and isinstance(value, str | int | float) and not isinstance(value, bool):
            return Decimal(str(value))
        if isinstance(value, str) and (parse := _parser_of(logical)):
            return parse(value)
        if isinstance(value, str) and (type_.kind == "bytes" or isinstance(type_, Fixed)):
            return value.encode("latin-1")
    except (ValueError, InvalidOperation):
        raise NotThisType(f"{place or '/'}: {value!r} is not a valid {logical or name_of(type_)}") from None
    if isinstance(value, _KINDS.get(type_.kind, ())) and isinstance(value, bool) == (type_.kind == "boolean"):
        return value
    raise NotThisType(f"{place or '/'}: {value!r} is not of type {name_of(type_)}")


def _parser_of(logical: str) -> Callable[[str], Any] | None:
    if logical == "date":
        return datetime.date.fromisoformat
    if logical.startswith("time-"):
        return datetime.time.fromisoformat
    if logical.startswith(("timestamp-", "local-timestamp-")):
        return datetime.datetime.fromisoformat
    return None


def to_json_scalar(value: Any) -> str:
    """Return what `json` cannot write; a `default` for it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime.date | datetime.time | datetime.datetime):
        return value.isoformat()
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
