"""Messages for tests, derived from the declarations alone."""

import struct
import uuid
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tailrace.protocol.message import Field, Message
from tailrace.protocol.primitive import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Fixed,
    WireType,
)
from tailrace.protocol.registry import message_types

CASES = [(cls, version) for cls in message_types() for version in cls.SCHEMA.versions]
CASE_IDS = [f"{cls.__name__}-v{version}" for cls, version in CASES]

# Long enough for lengths of two bytes in a varint, and with characters of one to four bytes.
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", "a" * 126, "a" * 127, "b" * 300, "naïve €𝄞"]))
BLOBS = st.one_of(st.binary(max_size=6), st.sampled_from([b"", b"\0" * 126, b"\xff" * 127, b"x" * 300]))


@cache
def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Every message that this version can carry; fields that it lacks keep their default."""
    present = [field for field in cls.SCHEMA.fields if version in field.versions]
    return st.builds(cls, **{field.name: _field_values(field, version) for field in present})


def _field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _values(field.type, version)
    can_be_none = version in field.nullable or (isinstance(field.type, type) and field.tag >= 0)
    return st.one_of(st.none(), values) if can_be_none else values


def _values(kind: WireType | type[Message], version: int) -> st.SearchStrategy[Any]:
    if isinstance(kind, type):
        return messages(kind, version)
    if isinstance(kind, Array):
        return st.lists(_values(kind.element, version), max_size=2)
    if isinstance(kind, Fixed) and kind not in (BOOLEAN, FLOAT64, UUID):
        low, high = _integer_bounds(kind)
        return st.one_of(st.sampled_from([low, high]), st.integers(low, high))
    return {
        BOOLEAN: st.booleans(),
        FLOAT64: st.floats(allow_nan=False),
        UUID: st.uuids(allow_nil=True),
        STRING: TEXTS,
        BYTES: BLOBS,
        RECORDS: BLOBS,
    }[kind]


def _integer_bounds(kind: Fixed) -> tuple[int, int]:
    bits = 8 * kind.size
    return (0, 2**bits - 1) if kind.format.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def full_message(cls: type[Message], version: int) -> Any:
    """A message in which every field of this version is set, and set to something of its own."""
    message = cls()
    for number, field in enumerate(cls.SCHEMA.fields, start=1):
        if version in field.versions:
            setattr(message, field.name, _full_value(field.type, version, number))
    return message


def _full_value(kind: WireType | type[Message], version: int, number: int) -> Any:
    if isinstance(kind, type):
        return full_message(kind, version)
    if isinstance(kind, Array):
        return [_full_value(kind.element, version, number), _full_value(kind.element, version, number + 1)]
    if kind is BOOLEAN:
        return True
    if kind is UUID:
        return uuid.UUID(int=number << 64 | 0xFEED)
    if isinstance(kind, Fixed):
        return struct.unpack(f">{kind.format}", bytes([number] * kind.size))[0]
    return f"text {number}" if kind is STRING else b"bytes %d" % number
