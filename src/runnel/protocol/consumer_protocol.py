"""What consumers tell each other inside JoinGroup and SyncGroup, which a coordinator passes on unread.

Every value begins with its version. A newer one than we know only adds fields at the end, so it is
read as the newest that we know, and what follows is left alone, as Kafka does.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import TypeVar

from runnel.protocol.codec import decode, encode
from runnel.protocol.errors import RemoteProtocolError
from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BYTES, INT32, STRING, Buffer, array

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1

M = TypeVar("M", bound=Message)

_VERSION = Struct(">h")


class ConsumerProtocolTopicPartition(Message):
    """Partitions of one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(versions="0-3")
class ConsumerProtocolSubscription(Message):
    """What a member wants and, from version 1, what it has."""

    topics: list[str] = wire(array(STRING), "0+")
    user_data: bytes | None = wire(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartition] = wire(
        array(ConsumerProtocolTopicPartition), "1+", ignorable=True
    )
    # in which the member had them; what an older one claims is out of date (KIP-792)
    generation_id: int = wire(INT32, "2+", default=NO_GENERATION, ignorable=True)
    rack_id: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    """What the leader gives a member."""

    assigned_partitions: list[ConsumerProtocolTopicPartition] = wire(array(ConsumerProtocolTopicPartition), "0+")
    user_data: bytes | None = wire(BYTES, "0+", nullable="0+", default=None)


def encode_versioned(value: Message, version: int | None = None) -> bytes:
    """The version, the newest if none is named, and then the value."""
    version = value.SCHEMA.versions[-1] if version is None else version
    return _VERSION.pack(version) + encode(value, version)


def decode_versioned(kind: type[M], data: Buffer) -> M:
    """Read what `encode_versioned` wrote; raises `RemoteProtocolError` for what is none."""
    if len(data) < _VERSION.size:
        raise RemoteProtocolError(f"{kind.__name__} has no version")
    (version,) = _VERSION.unpack_from(data)
    return decode(kind, data, min(version, kind.SCHEMA.versions[-1]), _VERSION.size)[0]


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> list[ConsumerProtocolTopicPartition]:
    """Partitions as they stand in a message: by topic, in order."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [ConsumerProtocolTopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()]


def flatten(topics: Sequence[ConsumerProtocolTopicPartition]) -> list[tuple[str, int]]:
    """The partitions that stand in a message."""
    return [(item.topic, partition) for item in topics for partition in item.partitions]


def decode_assignment(data: Buffer) -> list[tuple[str, int]]:
    """The partitions of an assignment; none for the empty one of a member that is given nothing."""
    return flatten(decode_versioned(ConsumerProtocolAssignment, data).assigned_partitions) if data else []


def encode_assignments(assignments: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, bytes]:
    """What each member is given, as bytes."""
    return {
        member_id: encode_versioned(ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)))
        for member_id, partitions in assignments.items()
    }
