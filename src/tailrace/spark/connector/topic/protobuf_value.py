"""Protobuf messages as rows, and rows as messages, one by one.

| Protobuf | Arrow |
| --- | --- |
| message, map, repeated | struct, map, list |
| enum | string |
| uint32, uint64 | int64, decimal of 20 digits |
| Timestamp, wrappers such as Int64Value | timestamp, the type that is wrapped |

A field with presence that is not set is null.
"""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tailrace.records.message_index import FIRST
from tailrace.schema.codec.protobuf import LoadedProtobuf, ProtobufCodec
from tailrace.schema.error import CodecError
from tailrace.schema.language import Imports
from tailrace.schema.protobuf.schema import parse
from tailrace.spark.error import PipelineError

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_PLAIN = {
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
}


def first_message(text: str, imports: Imports) -> Descriptor:
    """Return the message that values have unless they name another one. Raise `PipelineError` if there is none."""
    loaded = LoadedProtobuf(parse(text, imports))
    try:
        found: Descriptor = loaded.message_class(loaded.name_at(FIRST)).DESCRIPTOR
    except LookupError as error:
        raise PipelineError(f"the schema has no message: {error}") from None
    return found


class ProtobufColumns:
    """Decodes and encodes columns with a codec."""

    def __init__(self, codec: ProtobufCodec) -> None:
        self._codec = codec

    def decode(self, column: Any, columns: Any) -> Any:
        """Return a table with these columns. Raise `CodecError` for a value that is not of the reader's message."""
        rows = [None if value is None else self._row(value) for value in column.to_pylist()]
        array = pa.array(rows, pa.struct(list(columns)))
        return pa.Table.from_arrays(array.flatten(), schema=columns)

    def _row(self, value: bytes) -> dict[str, Any]:
        message = self._codec.decode(value)
        expected = self._codec.reader()
        name = message.DESCRIPTOR.full_name
        if expected is not None and name != (first := expected.name_at(FIRST)):
            raise CodecError(f"the value is a {name} and not a {first}")
        return row_of(message)

    def encode(self, rows: Any) -> Any:
        """Return a column with the framed message of each row. Raise `CodecError` for a row that does not fit."""
        _, schema = self._codec.writer()
        kind = schema.message_class(schema.name_at(FIRST))
        values = []
        for row in rows.to_pylist():
            message = kind()
            try:
                fill(message, row)
            except (TypeError, ValueError) as error:
                raise CodecError(f"not a value of message {kind.DESCRIPTOR.full_name}: {error}") from None
            values.append(self._codec.encode(message))
        return pa.array(values, pa.binary())


def message_fields(descriptor: Descriptor, outer: tuple[str, ...] = ()) -> list[Any]:
    """Return the Arrow fields of a message. Raise `PipelineError` if it contains itself."""
    if descriptor.full_name in outer:
        raise PipelineError(f"message {descriptor.full_name} contains itself, which columns cannot hold")
    inner = (*outer, descriptor.full_name)
    return [pa.field(field.name, _field_type(field, inner)) for field in descriptor.fields]


def _field_type(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return pa.map_(_item_type(entry["key"], outer), _item_type(entry["value"], outer))
    return pa.list_(_item_type(field, outer)) if field.is_repeated else _item_type(field, outer)


def _item_type(field: FieldDescriptor, outer: tuple[str, ...]) -> Any:
    if field.message_type is None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
        return _PLAIN[field.cpp_type]
    if field.message_type.full_name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if field.message_type.full_name in _WRAPPERS:
        return _item_type(field.message_type.fields_by_name["value"], outer)
    return pa.struct(message_fields(field.message_type, outer))


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def row_of(message: Message) -> dict[str, Any]:
    """Return a message as Arrow takes it."""
    return {field.name: _read_field(message, field) for field in message.DESCRIPTOR.fields}


def _read_field(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        item = field.message_type.fields_by_name["value"]
        return [(key, _read_item(item, value[key])) for key in value]
    if field.is_repeated:
        return [_read_item(field, item) for item in value]
    return None if field.has_presence and not message.HasField(field.name) else _read_item(field, value)


def _read_item(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is None:
        if field.enum_type is None:
            return value
        symbol = field.enum_type.values_by_number.get(value)
        return str(value) if symbol is None else symbol.name  # an open enum may hold a number without a name
    if field.message_type.full_name == _TIMESTAMP:
        return value.ToMicroseconds()
    return value.value if field.message_type.full_name in _WRAPPERS else row_of(value)


def fill(message: Message, row: dict[str, Any]) -> None:
    """Set the fields of an empty message. Raise `TypeError` or `ValueError` if a value does not fit."""
    for field in message.DESCRIPTOR.fields:
        value = row.get(field.name)
        if value is None:
            continue
        target = getattr(message, field.name)
        if _is_map(field):
            is_plain = field.message_type.fields_by_name["value"].message_type is None
            for key, item in value:
                if is_plain:
                    target[key] = item
                else:
                    _fill_item(target[key], item)
        elif field.is_repeated and field.message_type is not None:
            for item in value:
                _fill_item(target.add(), item)
        elif field.is_repeated:
            target.extend(value)
        elif field.message_type is not None:
            target.SetInParent()
            _fill_item(target, value)
        else:
            setattr(message, field.name, value)


def _fill_item(target: Any, value: Any) -> None:
    if value is None:
        raise ValueError("Protobuf has no null in lists and maps")
    if isinstance(value, datetime):
        target.FromDatetime(value.astimezone(UTC) if value.tzinfo else value)
    else:
        fill(target, value)
