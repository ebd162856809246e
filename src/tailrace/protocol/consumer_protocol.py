"""The subscriptions and assignments that consumers exchange through JoinGroup and SyncGroup.

The coordinator passes them on without reading them. Every value begins with its version. A newer
version only adds fields at the end, so it is read as the newest known version, and the rest is
ignored, as in Kafka.
"""

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import TypeVar

from tailrace.base.sentinel import INT32_MAX
from tailrace.protocol.codec import decode, encode
from tailrace.protocol.errors import RemoteProtocolError
from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT32, STRING, Buffer, array

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
    """The topics that a member subscribes to and, from version 1, the partitions that it owns."""

    topics: list[str] = wire(array(STRING), "0+")
    user_data: bytes | None = wire(BYTES, "0+", nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartition] = wire(
        array(ConsumerProtocolTopicPartition), "1+", ignorable=True
    )
    # the generation in which the member owned the partitions; claims of an older one are stale (KIP-792)
    generation_id: int = wire(INT32, "2+", default=NO_GENERATION, ignorable=True)
    rack_id: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    """The partitions that the group leader assigns to a member."""

    assigned_partitions: list[ConsumerProtocolTopicPartition] = wire(array(ConsumerProtocolTopicPartition), "0+")
    user_data: bytes | None = wire(BYTES, "0+", nullable="0+", default=None)


def encode_versioned(value: Message, version: int | None = None) -> bytes:
    """Encode the version, by default the newest, and then the value."""
    version = value.SCHEMA.versions[-1] if version is None else version
    return _VERSION.pack(version) + encode(value, version)


def decode_versioned(kind: type[M], data: Buffer, element_count_max: int = INT32_MAX) -> M:
    """Decode the result of `encode_versioned`; raise `RemoteProtocolError` if it is invalid or too large."""
    if len(data) < _VERSION.size:
        raise RemoteProtocolError(f"{kind.__name__} has no version")
    (version,) = _VERSION.unpack_from(data)
    return decode(kind, data, min(version, kind.SCHEMA.versions[-1]), _VERSION.size, element_count_max)[0]


def group_by_topic(partitions: Iterable[tuple[str, int]]) -> list[ConsumerProtocolTopicPartition]:
    """Group partitions by topic, in order, as messages hold them."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [ConsumerProtocolTopicPartition(topic=topic, partitions=found) for topic, found in by_topic.items()]


def flatten(topics: Sequence[ConsumerProtocolTopicPartition]) -> list[tuple[str, int]]:
    """Return the partitions in a message."""
    return [(item.topic, partition) for item in topics for partition in item.partitions]


def decode_assignment(data: Buffer) -> list[tuple[str, int]]:
    """Return the partitions of an assignment; empty data means no partitions."""
    return flatten(decode_versioned(ConsumerProtocolAssignment, data).assigned_partitions) if data else []


def encode_assignments(assignments: Mapping[str, Iterable[tuple[str, int]]]) -> dict[str, bytes]:
    """Encode the assignment of each member."""
    return {
        member_id: encode_versioned(ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)))
        for member_id, partitions in assignments.items()
    }
