"""JSON objects as rows of a schema, by the rules of Spark's `from_json`. Pure.

A table is decoded record by record, in Python, when it changes, and not by Spark in each batch.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa

from tailrace.spark.error import PipelineError

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotARow(ValueError):
    """A value that is not a JSON object of the schema."""


def row_decoder(columns: Any) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that decodes a value to a row with these columns of Arrow, or raises `NotARow`.

    Raises `PipelineError` for a type that JSON values cannot have.
    """
    converters = {field.name: _converter(field.type, field.name) for field in columns}

    def decode(value: bytes) -> dict[str, Any]:
        try:
            found = json.loads(value, parse_float=Decimal)
        except (ValueError, RecursionError) as error:
            raise NotARow(str(error)) from None
        if not isinstance(found, dict):
            raise NotARow("it is not an object")
        return _fields(converters, found)

    return decode


def key_decoder(type_: Any, name: str) -> Callable[[bytes], Any]:
    """Return a function that decodes the key of a record to the type of its column, or raises `NotARow`."""
    if pa.types.is_string(type_):
        return partial(_key, str)
    if pa.types.is_integer(type_):
        return partial(_key, partial(_whole, 1 << (type_.bit_width - 1)))
    raise PipelineError(f"the key is column {name}, whose type is {type_}; it can be a string or an integer")


def _key(read: Callable[[str], Any], key: bytes) -> Any:
    try:
        return read(key.decode())
    except ValueError:
        raise NotARow(f"the key {key[:40]!r} does not have the type of its column") from None


def _whole(limit: int, text: str) -> int:
    number = int(text)
    if not -limit <= number < limit:
        raise ValueError(text)
    return number


def _converter(type_: Any, place: str) -> Convert:
    if pa.types.is_struct(type_):
        fields = {field.name: _converter(field.type, f"{place}.{field.name}") for field in type_}
        return partial(_object, fields)
    if pa.types.is_list(type_):
        return partial(_list, _converter(type_.value_type, place))
    if pa.types.is_map(type_) and pa.types.is_string(type_.key_type):
        return partial(_map, _converter(type_.item_type, place))
    if pa.types.is_integer(type_):
        return partial(_integer, 1 << (type_.bit_width - 1))
    if pa.types.is_timestamp(type_):
        return partial(_timestamp, type_.tz is not None)
    for is_kind, convert in _PLAIN:
        if is_kind(type_):
            return convert
    raise PipelineError(f"column {place} is {type_}, which a table cannot decode from JSON")


def _fields(converters: Mapping[str, Convert], found: Mapping[str, Any]) -> dict[str, Any]:
    row = {}
    for name, convert in converters.items():
        value = found.get(name)
        try:
            row[name] = None if value is None else convert(value)
        except (ArithmeticError, TypeError, ValueError):
            raise NotARow(f"field {name} does not have its type") from None
    return row


def _object(converters: Mapping[str, Convert], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return _fields(converters, value)


def _list(convert: Convert, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return [None if each is None else convert(each) for each in value]


def _map(convert: Convert, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError
    return [(name, None if each is None else convert(each)) for name, each in value.items()]


def _integer(limit: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        raise TypeError
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError
    return float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise TypeError
    try:
        return Decimal(value)
    except InvalidOperation:
        raise TypeError from None


def _text(value: Any) -> str:
    """Return a text; like Spark, that of another JSON value."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), default=float)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    return b64decode(value, validate=True)


def _date(value: Any) -> date:
    if not isinstance(value, str):
        raise TypeError
    return date.fromisoformat(value)


def _timestamp(has_zone: bool, value: Any) -> datetime:
    """Return a time: a number has seconds, and a text without a zone is in UTC, the zone of the session."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        found = _EPOCH + timedelta(microseconds=int(value * 1_000_000))
    elif isinstance(value, str):
        found = datetime.fromisoformat(value)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    else:
        raise TypeError
    return found if has_zone else found.astimezone(UTC).replace(tzinfo=None)


_PLAIN: tuple[tuple[Callable[[Any], bool], Convert], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_binary, _bytes),
    (pa.types.is_date, _date),
)
