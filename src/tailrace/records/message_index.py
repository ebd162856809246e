"""The message index of Confluent's wire format for Protobuf: which message of a schema the bytes are.

A schema has many messages, and its id names all of them. After the id stands the way to one: its place among the
messages of the file, then its place among the messages nested in that one, and so on. The file is a
`FileDescriptorProto` of protobuf, or anything with its attributes, so that this module does without protobuf.
"""

from collections.abc import Sequence
from typing import Protocol

from tailrace.records.error import CorruptBatch
from tailrace.records.varint import read_varint, write_varint

MessageIndex = tuple[int, ...]

FIRST: MessageIndex = (0,)
"""The first message of a file, which is written as a single zero."""

_DEPTH_MAX = 100
"""Messages in messages. Protobuf reads no deeper descriptor, so a longer index is an error of the sender."""


class MessageType(Protocol):
    """A message of a file, as `DescriptorProto` describes it."""

    @property
    def name(self) -> str: ...

    @property
    def nested_type(self) -> "Sequence[MessageType]": ...


class MessageFile(Protocol):
    """A file with messages, as `FileDescriptorProto` describes it."""

    @property
    def package(self) -> str: ...

    @property
    def message_type(self) -> Sequence[MessageType]: ...


def encode(index: MessageIndex) -> bytes:
    """Return the bytes of an index: the number of its parts and the parts, or a zero for the first message."""
    if index == FIRST:
        return b"\0"
    output = bytearray()
    write_varint(output, len(index))
    for part in index:
        write_varint(output, part)
    return bytes(output)


def decode(data: bytes, at: int, end: int) -> tuple[MessageIndex, int]:
    """Return the index at `at` and the position after it, which is at most `end`.

    Raise `CorruptBatch` if the bytes are no index.
    """
    count, at = read_varint(data, at, end)
    if count == 0:
        return FIRST, at
    if not 0 < count <= _DEPTH_MAX:
        raise CorruptBatch(f"a message index has {count} parts, and not between 1 and {_DEPTH_MAX}")
    parts = []
    for _ in range(count):
        part, at = read_varint(data, at, end)
        if part < 0:
            raise CorruptBatch(f"a message index has the negative part {part}")
        parts.append(part)
    return tuple(parts), at


def index_of(file: MessageFile, name: str) -> MessageIndex:
    """Return the index of a message by its full name. Raise `LookupError` if the file does not declare it."""
    prefix = f"{file.package}." if file.package else ""
    index = []
    messages = file.message_type
    for part in name.removeprefix(prefix).split("."):
        place = next((place for place, message in enumerate(messages) if message.name == part), None)
        if place is None or not name.startswith(prefix):
            raise LookupError(f"the schema has no message {name}")
        index.append(place)
        messages = messages[place].nested_type
    return tuple(index)


def name_at(file: MessageFile, index: MessageIndex) -> str:
    """Return the full name of the message at an index. Raise `LookupError` if the file has none there."""
    parts = [file.package] if file.package else []
    messages = file.message_type
    for place in index or FIRST:
        if not 0 <= place < len(messages):
            raise LookupError(f"the schema has no message at index {list(index)}")
        parts.append(messages[place].name)
        messages = messages[place].nested_type
    return ".".join(parts)
