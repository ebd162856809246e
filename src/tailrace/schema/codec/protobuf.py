"""Protobuf: messages, or dictionaries in the notation of Protobuf's JSON."""

import base64
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from tailrace.records.error import CorruptBatch
from tailrace.records.message_index import FIRST, MessageIndex, index_of, name_at
from tailrace.records.message_index import decode as decode_index
from tailrace.records.message_index import encode as encode_index
from tailrace.schema.codec.core import Codec
from tailrace.schema.error import CodecError
from tailrace.schema.frame import frame
from tailrace.schema.language import Imports, Reference, SchemaType
from tailrace.schema.protobuf.known_import import NAMES
from tailrace.schema.protobuf.schema import ProtobufSchema, parse
from tailrace.schema.registry import Registry
from tailrace.schema.stored import NewSchema


class LoadedProtobuf:
    """A schema, and the classes of its messages."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self.schema = schema

    @cached_property
    def _pool(self) -> DescriptorPool:
        pool = DescriptorPool()
        for descriptor in self.schema.linked().values():
            pool.AddSerializedFile(descriptor.SerializeToString())
        return pool

    def message_class(self, name: str) -> type[Message]:
        """Return the class of a message. Raise `KeyError` if there is none."""
        found: type[Message] = GetMessageClass(self._pool.FindMessageTypeByName(name))
        return found

    def index(self, name: str) -> MessageIndex:
        """Return the place of a message in the file. Raise `LookupError` if it has none."""
        return index_of(self.schema.counted_descriptor, name)

    def name_at(self, index: MessageIndex) -> str:
        """Return the message at a place. Raise `LookupError` if there is none."""
        return name_at(self.schema.counted_descriptor, index)


class ProtobufCodec(Codec[LoadedProtobuf]):
    """Encodes messages, and dictionaries as messages of the schema; decodes to messages.

    `message` is a generated class, whose file is the schema if there is no other, or the full name of a message.
    Without it, values are of the first message of the schema.
    """

    language = SchemaType.PROTOBUF

    def __init__(
        self, registry: Registry, topic: str, *, message: type[Message] | str | None = None, **options: Any
    ) -> None:
        """Take the options of every codec, and the message."""
        self._class = None if message is None or isinstance(message, str) else message
        self._name = message if isinstance(message, str) else None
        if self._class is not None:
            self._name = self._class.DESCRIPTOR.full_name
        super().__init__(registry, topic, **options)
        self._uses_file = self._class is not None and not (options.keys() & {"schema", "schema_id", "use_latest"})

    def _new_schema(self) -> NewSchema | None:
        if self._uses_file and self._schema is None and self._class is not None:
            self._schema = self._schema_of_file(self._class.DESCRIPTOR.file)
        return self._schema

    def _schema_of_file(self, file: FileDescriptor) -> NewSchema:
        """Return the schema of a generated file; register what it imports under the names of the files."""
        references: Sequence[Reference] = [
            self._registered(each) for each in file.dependencies if each.name not in NAMES
        ]
        return NewSchema(base64.b64encode(file.serialized_pb).decode(), SchemaType.PROTOBUF, tuple(references))

    def _registered(self, file: FileDescriptor) -> Reference:
        schema = self._schema_of_file(file)
        call = self._registry.register if self._auto_register else self._registry.look_up
        version = call(file.name, schema, normalize=self._normalize).version
        if version is None:
            version = self._registry.look_up(file.name, schema, normalize=self._normalize).version
        return Reference(file.name, file.name, version or 1)

    def _parse(self, text: str, imports: Imports) -> LoadedProtobuf:
        return LoadedProtobuf(parse(text, imports))

    def _name_of(self, parsed: LoadedProtobuf) -> str | None:
        return self._name or parsed.schema.name

    def _write(self, parsed: LoadedProtobuf, value: Any) -> bytes:
        name = self._message_name(parsed)
        try:
            index = encode_index(parsed.index(name))
            message = self._message(parsed, name, value)
            return bytes(index + message.SerializeToString())
        except (LookupError, json_format.ParseError, EncodeError, TypeError, ValueError) as error:
            raise CodecError(f"{self._place()} does not fit the schema: {error}") from None

    def _message_name(self, parsed: LoadedProtobuf) -> str:
        try:
            return self._name or parsed.name_at(FIRST)
        except LookupError as error:
            raise CodecError(f"{self._place()}: {error}") from None

    def _message(self, parsed: LoadedProtobuf, name: str, value: Any) -> Message:
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != name:
                raise TypeError(f"it is a {value.DESCRIPTOR.full_name} and not a {name}")
            return value
        if not isinstance(value, dict):
            raise TypeError(f"it is a {type(value).__name__} and neither a message nor a dictionary")
        return json_format.ParseDict(value, parsed.message_class(name)())

    def _read(self, parsed: LoadedProtobuf, data: bytes, at: int) -> Message:
        try:
            index, at = decode_index(data, at, len(data))
            name = parsed.name_at(index)
            return self._reader_class(parsed, name).FromString(data[at:])
        except (CorruptBatch, DecodeError, LookupError) as error:
            raise CodecError(f"not a valid Protobuf value: {error}") from None

    def _reader_class(self, parsed: LoadedProtobuf, name: str) -> type[Message]:
        """Return the class that a message is read as: the generated one, or that of the codec's schema."""
        if self._class is not None:
            if name != self._name:
                raise LookupError(f"the message is a {name} and not a {self._name}")
            return self._class
        return (self.reader() or parsed).message_class(name)

    # --- columns

    def encode_column(self, rows: Any) -> Any:
        """Return a binary column with a framed value for each row of a table, written row by row."""
        import pyarrow as pa

        schema_id, parsed = self.writer()
        start = frame(schema_id)
        values = [None if row is None else start + self._write(parsed, row) for row in rows.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.binary())])

    def decode_column(self, column: Any) -> Any:
        """Return a table with a row for each framed value of a binary column, read row by row.

        The columns are the fields of the message by their names in the schema, in the notation of Protobuf's JSON.
        """
        import pyarrow as pa

        rows = [None if value is None else self.decode(value) for value in column.to_pylist()]
        names = list(dict.fromkeys(field.name for row in rows if row is not None for field in row.DESCRIPTOR.fields))
        objects = [{} if row is None else message_to_dict(row) for row in rows]
        return pa.table({name: pa.array([each.get(name) for each in objects]) for name in names})


def message_to_dict(message: Message) -> dict[str, Any]:
    """Return a message in the notation of Protobuf's JSON, with the names of the schema and with default values."""
    found: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found
