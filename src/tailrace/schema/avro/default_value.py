"""The default of a field as an Arrow column of one row, in the layout of `records/arrow/avro_plan.py`."""

from decimal import Decimal
from typing import Any

from tailrace.records.arrow.avro_plan import DECIMAL_PRECISION_MAX, make_plan
from tailrace.records.arrow.schema import pa
from tailrace.records.avro.default import fits
from tailrace.records.avro.logical import decimal_of
from tailrace.records.avro.type import Array, Field, Fixed, Json, Map, Record, Type, Union


def default_column(field: Field) -> Any:
    """Return the field's default."""
    return pa.array([_value(field.type, field.default)], make_plan(field.type).column.type)


def _value(type_: Type, default: Json) -> Any:
    """Return what Arrow makes the value of; the default of a union belongs to the first branch that it fits."""
    if isinstance(type_, Union):
        return _member(type_, default)
    if isinstance(type_, Record) and isinstance(default, dict):
        return {field.name: _value(field.type, default.get(field.name, field.default)) for field in type_.fields}
    if isinstance(type_, Array) and isinstance(default, list):
        return [_value(type_.items, item) for item in default]
    if isinstance(type_, Map) and isinstance(default, dict):
        return [(key, _value(type_.values, item)) for key, item in default.items()]
    if isinstance(default, str) and (type_.kind == "bytes" or isinstance(type_, Fixed)):
        return _bytes(type_, default.encode("latin-1"))  # a character is a byte, as the specification says
    return default


def _member(union: Union, default: Json) -> Any:
    branches = [branch for branch in union.branches if branch.kind != "null"]
    if default is None and len(branches) < len(union.branches):
        return None
    index = next((index for index, branch in enumerate(branches) if fits(branch, default)), 0)
    value = _value(branches[index], default)
    return value if len(branches) == 1 and len(union.branches) > 1 else {f"member{index}": value}


def _bytes(type_: Type, data: bytes) -> bytes | Decimal:
    decimal = decimal_of(type_)
    if decimal is None or decimal.precision > DECIMAL_PRECISION_MAX:
        return data
    return Decimal(int.from_bytes(data, signed=True)).scaleb(-decimal.scale)
