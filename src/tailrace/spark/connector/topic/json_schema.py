"""The JSON Schema of the rows that a flow writes."""

import json
from typing import TYPE_CHECKING, Any

from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_PLAIN: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "byte": {"type": "integer"},
    "short": {"type": "integer"},
    "integer": {"type": "integer"},
    "long": {"type": "integer"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "decimal": {"type": "number"},
    "string": {"type": "string"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
}
"""JSON Schemas of what Spark's `to_json` writes, by the names of Spark's types."""


def json_schema(rows: "StructType", topic: str) -> str:
    """Return the schema of rows: an object that is titled after the topic. Raise `PipelineError` if there is none.

    `to_json` leaves out columns that are null, so only columns that cannot be null are required. Other properties are
    not allowed, because an open content model could not gain a column later without breaking its readers.
    """
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": topic}
    return json.dumps({**head, **_object(rows, topic)}, separators=(",", ":"))


def _object(rows: "StructType", place: str) -> dict[str, Any]:
    properties = {field.name: _type(field.dataType, f"{place}: column {field.name}") for field in rows.fields}
    required = [field.name for field in rows.fields if not field.nullable]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def _type(kind: "DataType", place: str) -> dict[str, Any]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return _object(kind, place)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _optional(_type(kind.elementType, place), kind.containsNull)}
    if isinstance(kind, MapType):
        values = _optional(_type(kind.valueType, place), kind.valueContainsNull)
        return {"type": "object", "additionalProperties": values}
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise PipelineError(f"{place} is {kind.simpleString()}, which JSON does not have; cast it")
    return found


def _optional(schema: dict[str, Any], is_nullable: bool) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]} if is_nullable else schema
