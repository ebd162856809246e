"""The wire types of fields, and the parsing functions that both codecs share.

A type here is only a description. The compiled codec generates code from it, and the reference codec
interprets it; neither stores anything in it.
"""

import uuid
from typing import Any, TypeAlias

from tailrace.base.sentinel import INT32_MAX
from tailrace.protocol.errors import RemoteProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Buffer | list[Buffer] | None

ZERO_UUID = uuid.UUID(int=0)
FRESH: object = object()  # the default of a mutable field: a new list or struct each time
OPERATIONS_UNASKED = -(2**31)  # authorized operations that the client did not request
STRING_SIZE_MAX = 0x7FFF  # the old form has an int16, and Kafka limits the new form to the same length


class WireType:
    """The encoding of a field on the wire."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: object) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return self.name


class Fixed(WireType):
    """A value of constant size; `format` is its letter in the struct module."""

    __slots__ = ("format", "size")

    def __init__(self, name: str, format: str, size: int, default: object) -> None:
        super().__init__(name, default)
        self.format = format
        self.size = size


class Sized(WireType):
    """Bytes with a length prefix."""

    __slots__ = ()


class Array(WireType):
    """Elements with a count; an element is a fixed or sized value, or a struct."""

    __slots__ = ("element",)

    def __init__(self, element: WireType | type[Any]) -> None:
        super().__init__(f"array({element.__name__ if isinstance(element, type) else element.name})", FRESH)
        self.element = element


BOOLEAN = Fixed("BOOLEAN", "?", 1, False)
INT8 = Fixed("INT8", "b", 1, 0)
INT16 = Fixed("INT16", "h", 2, 0)
INT32 = Fixed("INT32", "i", 4, 0)
INT64 = Fixed("INT64", "q", 8, 0)
UINT16 = Fixed("UINT16", "H", 2, 0)
FLOAT64 = Fixed("FLOAT64", "d", 8, 0.0)
UUID = Fixed("UUID", "16s", 16, ZERO_UUID)
STRING = Sized("STRING", "")
BYTES = Sized("BYTES", b"")
RECORDS = Sized("RECORDS", None)


def array(element: WireType | type[Any]) -> Array:
    """Return an array of `element`, which is a wire type or the class of a struct."""
    return Array(element)


def encode_varint(value: int) -> bytes:
    """Encode an unsigned integer in groups of seven bits, the lowest first."""
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Decode an unsigned 32-bit integer and return it with the position after it."""
    value = shift = 0
    while True:
        if position >= len(data):
            raise RemoteProtocolError("the data ends inside a varint")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise RemoteProtocolError("a varint is longer than five bytes")
    if value > 0xFFFFFFFF:
        raise RemoteProtocolError("a varint does not fit 32 bits")
    return value, position


def skip_tagged_fields(data: Buffer, position: int, count_max: int = INT32_MAX) -> int:
    """Skip a tagged section without known fields (KIP-482)."""
    count, position = decode_varint(data, position)
    if count > count_max:
        raise RemoteProtocolError(f"{count} tagged fields, but at most {count_max} are allowed")
    for _ in range(count):
        _, position = decode_varint(data, position)
        size, position = decode_varint(data, position)
        position += size
        if position > len(data):
            raise RemoteProtocolError("a tagged field is longer than the remaining data")
    return position
