"""The Protobuf schema of the rows that a flow writes."""

import re
from typing import TYPE_CHECKING

from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    "boolean": "bool",
    "byte": "int32",
    "short": "int32",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "timestamp": "google.protobuf.Timestamp",
}
"""Protobuf types by the names of Spark's."""
_KEYS = frozenset(("bool", "int32", "int64", "string"))


def protobuf_schema(rows: "StructType", topic: str) -> str:
    """Return a file with one message, which is named after the topic. Raise `PipelineError` if there is none.

    Fields are numbered in the order of the columns, so new columns belong at the end.
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    message = "\n".join(_message(rows, f"M_{name}" if not _NAME.fullmatch(name) else name, topic))
    imported = 'import "google/protobuf/timestamp.proto";\n' if _PLAIN["timestamp"] in message else ""
    return f'syntax = "proto3";\n{imported}\n{message}\n'


def _message(rows: "StructType", name: str, place: str) -> list[str]:
    lines = [f"message {name} {{"]
    for number, field in enumerate(rows.fields, 1):
        where = f"{place}: column {field.name}"
        if not _NAME.fullmatch(field.name):
            raise PipelineError(f"{where} is not a name in Protobuf; rename it with alias()")
        nested: list[str] = []
        type_ = _field_type(field.dataType, f"{field.name.title()}Column", where, nested)
        lines.append(f"  {type_} {field.name} = {number};")
        lines += [f"  {line}" for line in nested]
    return [*lines, "}"]


def _field_type(kind: "DataType", name: str, place: str, nested: list[str]) -> str:
    """Return the type of a field with its label, and add the messages that it needs."""
    from pyspark.sql.types import ArrayType, MapType

    if isinstance(kind, ArrayType):
        return f"repeated {_type(kind.elementType, name, place, nested)}"
    if not isinstance(kind, MapType):
        return f"optional {_type(kind, name, place, nested)}"
    key = _PLAIN.get(kind.keyType.typeName())
    if key not in _KEYS:
        raise PipelineError(f"{place} is a map with keys of type {kind.keyType.simpleString()}; cast them to string")
    return f"map<{key}, {_type(kind.valueType, name, place, nested)}>"


def _type(kind: "DataType", name: str, place: str, nested: list[str]) -> str:
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        nested += _message(kind, name, place)
        return name
    found = _PLAIN.get(kind.typeName())
    if found is None:
        raise PipelineError(f"{place} is {kind.simpleString()}, which Protobuf does not have; cast it")
    return found
