"""Records of committed offsets."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT32, INT64, STRING, UUID


@message(versions="0")
class LegacyOffsetCommitKey(Message):
    """The group and the partition of an offset, in the form of Kafka before 0.9."""

    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message(versions="0")
class LegacyOffsetCommitValue(Message):
    """A committed offset, in the form of Kafka before 0.9."""

    offset: int = wire(INT64, "0")
    metadata: str = wire(STRING, "0")
    commit_timestamp: int = wire(INT64, "0")


@message(versions="0")
class OffsetCommitKey(Message):
    """The group and the partition of an offset."""

    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """A committed offset with its metadata."""

    offset: int = wire(INT64, "0+")
    leader_epoch: int = wire(INT32, "3+", default=-1, ignorable=True)
    metadata: str = wire(STRING, "0+")
    commit_timestamp: int = wire(INT64, "0+")
    # Only clients older than KIP-211 send a retention time; other offsets expire by the config of the broker.
    expire_timestamp: int = wire(INT64, "1", default=-1, ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "4+", tag=0, tagged="4+", ignorable=True)
