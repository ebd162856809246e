"""The reference codec, which interprets the declarations one field at a time.

Only tests use it. It defines what the compiled codec must do, in code that can be compared with the
protocol guide by reading it.
"""

import struct
import uuid
from typing import Any, TypeVar

from tailrace.protocol.errors import EncodeError, RemoteProtocolError
from tailrace.protocol.message import Field, Message, Schema
from tailrace.protocol.primitive import (
    BYTES,
    RECORDS,
    STRING,
    STRING_SIZE_MAX,
    UUID,
    Array,
    Buffer,
    Fixed,
    WireType,
    decode_varint,
    encode_varint,
    skip_tagged_fields,
)

M = TypeVar("M", bound=Message)


def encode(message: Message, version: int) -> bytes:
    """Encode a message in this version."""
    if version not in message.SCHEMA.versions:
        raise EncodeError(f"{message.SCHEMA.name} has no version {version}")
    return _Writer(version, version in message.SCHEMA.flexible).struct(message)


def encode_into(message: Message, version: int, out: list[Buffer]) -> None:
    """Append the message's bytes to `out`."""
    out.append(encode(message, version))


def decode(cls: type[M], buffer: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """Decode a message and return it with the position after it."""
    if version not in cls.SCHEMA.versions:
        raise RemoteProtocolError(f"{cls.__name__} has no version {version}")
    reader = _Reader(buffer, position, version, version in cls.SCHEMA.flexible)
    message = reader.struct(cls)
    return message, reader.position


class _Writer:
    """Encodes values in one version; every method returns the bytes of its value."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def struct(self, message: Message) -> bytes:
        schema = message.SCHEMA
        for field in schema.absent_fields(self.version):
            if not field.ignorable and getattr(message, field.name) != field.fresh_default():
                raise EncodeError(f"{schema.name}.{field.name} has a value, but version {self.version} lacks the field")
        encoded = b"".join(
            self.field(field, getattr(message, field.name)) for field in schema.untagged_fields(self.version)
        )
        return encoded + self.tagged_section(message) if self.flexible else encoded

    def tagged_section(self, message: Message) -> bytes:
        present = [
            field
            for field in message.SCHEMA.tagged_fields(self.version)
            if getattr(message, field.name) != field.fresh_default()
        ]
        encoded = encode_varint(len(present))
        for field in present:
            body = self.field(field, getattr(message, field.name))
            encoded += encode_varint(field.tag) + encode_varint(len(body)) + body
        return encoded

    def field(self, field: Field, value: Any) -> bytes:
        nullable = self.version in field.nullable
        if value is None and not nullable:
            raise EncodeError(f"{field.name} is None, which version {self.version} does not allow")
        if isinstance(field.type, type) and nullable:
            # Null is -1 in the body of a message and 0 among its tagged fields.
            null = b"\0" if self.version in field.tagged else b"\xff"
            return null if value is None else b"\x01" + self.struct(value)
        return self.value(field.type, value)

    def value(self, kind: WireType | type[Message], value: Any) -> bytes:
        if isinstance(kind, Fixed):
            return self.fixed(kind, value)
        if isinstance(kind, type):
            return self.struct(value)
        if value is None:
            return self.length(kind, -1)
        if isinstance(kind, Array):
            return self.length(kind, len(value)) + b"".join(self.value(kind.element, element) for element in value)
        content: bytes = value.encode() if kind is STRING else b"".join(value if isinstance(value, list) else [value])
        return self.length(kind, len(content)) + content

    def fixed(self, kind: Fixed, value: Any) -> bytes:
        try:
            return struct.pack(f">{kind.format}", value.bytes if kind is UUID else value)
        except struct.error as error:
            raise EncodeError(f"{value!r} is not of type {kind}") from error

    def length(self, kind: WireType, length: int) -> bytes:
        if kind is STRING and length > STRING_SIZE_MAX:
            raise EncodeError(f"a string has {length} bytes, more than the protocol allows")
        if self.flexible:
            return encode_varint(length + 1)
        return struct.pack(">h" if kind is STRING else ">i", length)


class _Reader:
    """Decodes values in one version, advancing its position."""

    def __init__(self, buffer: Buffer, position: int, version: int, flexible: bool) -> None:
        self.buffer = buffer
        self.position = position
        self.version = version
        self.flexible = flexible

    def take(self, size: int) -> Buffer:
        if size > len(self.buffer) - self.position:
            raise RemoteProtocolError(f"{size} bytes are expected, but fewer are left")
        self.position += size
        return self.buffer[self.position - size : self.position]

    def varint(self) -> int:
        value, self.position = decode_varint(self.buffer, self.position)
        return value

    def struct(self, cls: type[M]) -> M:
        schema = cls.SCHEMA
        values = {field.name: self.field(field) for field in schema.untagged_fields(self.version)}
        if self.flexible:
            values |= self.tagged_section(schema)
        return cls(**values)

    def tagged_section(self, schema: Schema) -> dict[str, Any]:
        known = {field.tag: field for field in schema.tagged_fields(self.version)}
        if not known:
            self.position = skip_tagged_fields(self.buffer, self.position)
            return {}
        values = {}
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            start = self.position
            self.take(size)
            if tag in known:
                self.position = start
                values[known[tag].name] = self.field(known[tag])
                if self.position != start + size:
                    raise RemoteProtocolError(f"the tagged field {known[tag].name} differs from its stated size")
        return values

    def field(self, field: Field) -> Any:
        nullable = self.version in field.nullable
        if isinstance(field.type, type) and nullable:
            is_null = self.fixed_number("b") < (1 if self.version in field.tagged else 0)
            return None if is_null else self.struct(field.type)
        value = self.value(field.type)
        if value is None and not nullable:
            raise RemoteProtocolError(f"{field.name} is null, which version {self.version} does not allow")
        return value

    def value(self, kind: WireType | type[Message]) -> Any:
        if isinstance(kind, type):
            return self.struct(kind)
        if kind is UUID:
            return uuid.UUID(bytes=bytes(self.take(16)))
        if isinstance(kind, Fixed):
            return self.fixed_number(kind.format)
        length = self.length(kind)
        if length is None:
            return None
        if isinstance(kind, Array):
            return self.elements(kind, length)
        content = self.take(length)
        if kind is BYTES:
            return bytes(content)
        if kind is RECORDS:
            return memoryview(self.buffer)[self.position - length : self.position]
        try:
            return str(content, "utf-8")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("a string is not UTF-8") from error

    def elements(self, kind: Array, count: int) -> list[Any]:
        if count > len(self.buffer) - self.position:
            raise RemoteProtocolError(f"an array has {count} elements, but fewer bytes are left")
        values = [self.value(kind.element) for _ in range(count)]
        if None in values:
            raise RemoteProtocolError("an element of an array is null")
        return values

    def fixed_number(self, letter: str) -> Any:
        return struct.unpack(f">{letter}", self.take(struct.calcsize(f">{letter}")))[0]

    def length(self, kind: WireType) -> int | None:
        """Read a length or count; None means null."""
        length = self.varint() - 1 if self.flexible else self.fixed_number("h" if kind is STRING else "i")
        if length < -1 or (kind is STRING and length > STRING_SIZE_MAX):
            raise RemoteProtocolError(f"{length} is not a valid length")
        return None if length == -1 else length
