"""Logical types. A logical type that does not fit its type is ignored, as Avro requires."""

import math
from dataclasses import dataclass
from typing import TypeGuard

from tailrace.base.sentinel import INT32_MAX
from tailrace.records.avro.type import Array, Fixed, Json, Primitive, Record, Type, Union, Unresolved

_PRIMITIVE_OF = {
    "big-decimal": "bytes",
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}

_DURATION_SIZE = 12
_UUID_SIZE = 16


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal number with a fixed number of digits after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


def decimal_of(type_: Type) -> Decimal | None:
    """Return precision and scale if the type is a valid decimal."""
    if not isinstance(type_, (Primitive, Fixed)) or type_.properties.get("logicalType") != "decimal":
        return None
    precision = type_.properties.get("precision")
    scale = type_.properties.get("scale", 0)
    if not _is_int(precision) or not _is_int(scale):
        return None
    decimal = Decimal(precision, scale)
    if isinstance(type_, Fixed):
        precision_max = math.floor(math.log10(2) * (8 * type_.size - 1))
    else:
        precision_max = INT32_MAX if type_.kind == "bytes" else 0
    is_valid = 0 < decimal.precision <= precision_max and 0 <= decimal.scale <= decimal.precision
    return decimal if is_valid else None


def logical_type_of(type_: Type) -> str | None:
    """Return the name of the type's logical type if it is known and valid.

    `map` and `variant` are known too: Confluent's registry adds them to those of the specification.
    """
    if isinstance(type_, (Union, Unresolved)):
        return None
    name = type_.properties.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal":
        is_valid = decimal_of(type_) is not None
    elif name == "uuid":
        is_valid = type_.kind == "string" or (isinstance(type_, Fixed) and type_.size == _UUID_SIZE)
    elif name == "duration":
        is_valid = isinstance(type_, Fixed) and type_.size == _DURATION_SIZE
    elif name == "map":
        is_valid = isinstance(type_, Array) and _field_names(type_.items) == ["key", "value"]
    elif name == "variant":
        is_valid = _is_variant(type_)
    else:
        is_valid = _PRIMITIVE_OF.get(name) == type_.kind
    return name if is_valid else None


def _field_names(type_: Type) -> list[str] | None:
    return [field.name for field in type_.fields] if isinstance(type_, Record) else None


def _is_variant(type_: Type) -> bool:
    return (
        isinstance(type_, Record)
        and sorted(_field_names(type_) or ()) == ["metadata", "value"]
        and all(field.type.kind == "bytes" for field in type_.fields)
    )


def _is_int(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT32_MAX
