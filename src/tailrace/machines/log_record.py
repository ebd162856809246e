"""The encoding of records in a coordinator's topic.

A key is a record type of two bytes and a message; a value is a version of two bytes and a message. A
record without a value is a tombstone, which deletes its key.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

from tailrace.base.invariant import invariant
from tailrace.protocol import codec
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message
from tailrace.protocol.primitive import Buffer

_PREFIX = Struct(">h")


class UnknownRecord(Exception):
    """A record has a type or version that this broker does not know. It is skipped."""


class CorruptRecord(Exception):
    """The bytes are not a record of the type and version that they state."""


@dataclass(frozen=True, slots=True)
class Record:
    """A key and its new value, or None for a tombstone."""

    key: Message
    value: Message | None


class RecordFormat:
    """The record types of one topic."""

    def __init__(
        self, types: Mapping[int, tuple[type[Message], type[Message]]], value_version: Callable[[Message], int]
    ) -> None:
        """`types` has the classes of key and value by type; `value_version` returns the version for a value."""
        self._types = types
        self._type_of_key = {key: number for number, (key, _) in types.items()}
        self._value_version = value_version

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Encode the key and the value of a record, in the versions that Kafka 4 writes."""
        record_type = self._type_of_key[type(record.key)]
        key = _PREFIX.pack(record_type) + codec.encode(record.key, 0)
        if record.value is None:
            return key, None
        invariant(type(record.value) is self._types[record_type][1], "the value has the type that its key requires")
        version = self._value_version(record.value)
        return key, _PREFIX.pack(version) + codec.encode(record.value, version)

    def decode(self, key: Buffer, value: Buffer | None) -> Record:
        """Decode a record; raise UnknownRecord for a type or version that a newer broker may have written."""
        record_type = _read_prefix(key)
        if record_type not in self._types:
            raise UnknownRecord(f"unknown record type {record_type}")
        key_class, value_class = self._types[record_type]
        decoded_key = _decode(key_class, key, 0)
        if value is None:
            return Record(decoded_key, None)
        version = _read_prefix(value)
        if version not in value_class.SCHEMA.versions:
            raise UnknownRecord(f"unknown version {version} of {value_class.__name__}")
        return Record(decoded_key, _decode(value_class, value, version))


def _read_prefix(data: Buffer) -> int:
    if len(data) < _PREFIX.size:
        raise CorruptRecord("the record is shorter than its type or version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _decode(cls: type[Message], data: Buffer, version: int) -> Message:
    try:
        message, _ = codec.decode(cls, data, version, _PREFIX.size)
    except RemoteProtocolError as error:
        raise CorruptRecord(str(error)) from error
    return message
