"""A record of `__consumer_offsets` between its bytes and its meaning.

A key is two bytes of record type and a message; a value is two bytes of version and a message.
A record without a value is a tombstone: what its key names is gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

from runnel.base.invariant import invariant
from runnel.machines.group.record.classic import GroupMetadataKey, GroupMetadataValue
from runnel.machines.group.record.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from runnel.machines.group.record.offset import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from runnel.protocol import codec
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.message import Message
from runnel.protocol.primitive import Buffer

_PREFIX = Struct(">h")

T = TypeVar("T")

RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_TYPE_OF_KEY = {key: number for number, (key, _) in RECORD_TYPES.items()}


class UnknownRecord(Exception):  # noqa: N818 — not an error of ours: a newer broker wrote it
    """A record of a type or version that this broker does not know; it is passed over."""


class CorruptRecord(Exception):  # noqa: N818 — says what it is, as UnknownRecord does
    """The bytes are no record of the type and version that they claim."""


@dataclass(frozen=True, slots=True)
class Record:
    """A key and its new value, or None for a tombstone."""

    key: Message
    value: Message | None


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """The bytes of a record's key and of its value, in the versions that Kafka 4 writes."""
    record_type = _TYPE_OF_KEY[type(record.key)]
    key = _PREFIX.pack(record_type) + codec.encode(record.key, 0)
    if record.value is None:
        return key, None
    invariant(type(record.value) is RECORD_TYPES[record_type][1], "a value belongs to another key")
    version = _value_version(record.value)
    return key, _PREFIX.pack(version) + codec.encode(record.value, version)


def _value_version(value: Message) -> int:
    if isinstance(value, OffsetCommitValue):
        return 4 if value.expire_timestamp == -1 else 1  # the one version that holds an expiry time
    return 3 if isinstance(value, GroupMetadataValue) else 0


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """The record that these bytes hold; UnknownRecord for what a newer broker may have written."""
    record_type = _read_prefix(key)
    if record_type not in RECORD_TYPES:
        raise UnknownRecord(f"record type {record_type}")
    key_class, value_class = RECORD_TYPES[record_type]
    decoded_key = _decode(key_class, key, 0)
    if value is None:
        return Record(decoded_key, None)
    version = _read_prefix(value)
    if version not in value_class.SCHEMA.versions:
        raise UnknownRecord(f"version {version} of {value_class.__name__}")
    return Record(decoded_key, _decode(value_class, value, version))


def newest(entries: Iterable[tuple[bytes, T]]) -> dict[bytes, T]:
    """What counts of some records in a row, by the bytes of their keys: the last of each key, where it stood.

    That is what compaction would leave of them, so a replay of these comes to the same. Most records of a busy group
    are about what has changed again since.
    """
    found: dict[bytes, T] = {}
    for key, value in entries:
        found.pop(key, None)
        found[key] = value
    return found


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
