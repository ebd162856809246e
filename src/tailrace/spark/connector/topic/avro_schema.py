"""The Avro schema of the rows that a flow writes."""

import json
import re
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[str, Any] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
"""Avro types by the names of Spark's."""


def avro_schema(rows: "StructType", topic: str) -> str:
    """Return the schema of rows: a record that is named after the topic. Raise `PipelineError` if there is none.

    A column that may be null is a union with null, and its default is null.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return json.dumps(_record(rows, f"_{name}" if name[0].isdigit() else name, topic), separators=(",", ":"))


def _record(rows: "StructType", name: str, place: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field, name, place) for field in rows.fields]}


def _field(field: Any, outer: str, place: str) -> dict[str, Any]:
    if not _NAME.fullmatch(field.name):
        raise PipelineError(f"{place}: column {field.name!r} is not a name in Avro; rename it with alias()")
    type_ = _type(field.dataType, f"{outer}_{field.name}", f"{place}: column {field.name}")
    return (
        {"name": field.name, "type": ["null", type_], "default": None}
        if field.nullable
        else {
            "name": field.name,
            "type": type_,
        }
    )


def _type(kind: "DataType", name: str, place: str) -> Any:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return _record(kind, name, place)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _optional(_type(kind.elementType, name, place), kind.containsNull)}
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise PipelineError(f"{place} is a map with keys of type {kind.keyType.simpleString()}; Avro needs strings")
        return {"type": "map", "values": _optional(_type(kind.valueType, name, place), kind.valueContainsNull)}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise PipelineError(f"{place} is {kind.simpleString()}, which Avro does not have; cast it")
    return found


def _optional(type_: Any, is_nullable: bool) -> Any:
    return ["null", type_] if is_nullable else type_
