"""A record of a coordinator's topic between its bytes and its meaning.

A key is two bytes of record type and a message; a value is two bytes of version and a message.
A record without a value is a tombstone: what its key names is gone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

from runnel.base.invariant import invariant
from runnel.protocol import codec
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.message import Message
from runnel.protocol.primitive import Buffer

_PREFIX = Struct(">h")


class UnknownRecord(Exception):  # noqa: N818 — not an error of ours: a newer broker wrote it
    """A record of a type or version that this broker does not know; it is passed over."""


class CorruptRecord(Exception):  # noqa: N818 — says what it is, as UnknownRecord does
    """The bytes are no record of the type and version that they claim."""


@dataclass(frozen=True, slots=True)
class Record:
    """A key and its new value, or None for a tombstone."""

    key: Message
    value: Message | None


class RecordFormat:
    """The types of records in one topic."""

    def __init__(
        self, types: Mapping[int, tuple[type[Message], type[Message]]], value_version: Callable[[Message], int]
    ) -> None:
        """`types` gives the classes of key and value for each type; `value_version` the version to write a value in."""
        self._types = types
        self._type_of_key = {key: number for number, (key, _) in types.items()}
        self._value_version = value_version

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """The bytes of a record's key and of its value, in the versions that Kafka 4 writes."""
        record_type = self._type_of_key[type(record.key)]
        key = _PREFIX.pack(record_type) + codec.encode(record.key, 0)
        if record.value is None:
            return key, None
        invariant(type(record.value) is self._types[record_type][1], "a value belongs to another key")
        version = self._value_version(record.value)
        return key, _PREFIX.pack(version) + codec.encode(record.value, version)

    def decode(self, key: Buffer, value: Buffer | None) -> Record:
        """The record that these bytes hold; UnknownRecord for what a newer broker may have written."""
        record_type = _read_prefix(key)
        if record_type not in self._types:
            raise UnknownRecord(f"record type {record_type}")
        key_class, value_class = self._types[record_type]
        decoded_key = _decode(key_class, key, 0)
        if value is None:
            return Record(decoded_key, None)
        version = _read_prefix(value)
        if version not in value_class.SCHEMA.versions:
            raise UnknownRecord(f"version {version} of {value_class.__name__}")
        return Record(decoded_key, _decode(value_class, value, version))


def _read_prefix(data: Buffer) -> int:
    if len(data) < _PREFIX.size:
        raise CorruptRecord("shorter than its type")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _decode(cls: type[Message], data: Buffer, version: int) -> Message:
    try:
        message, _ = codec.decode(cls, data, version, _PREFIX.size)
    except RemoteProtocolError as error:
        raise CorruptRecord(str(error)) from error
    return message
