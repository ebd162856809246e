"""Records of committed offsets."""

import uuid

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import INT32, INT64, STRING, UUID


@message(versions="0")
class LegacyOffsetCommitKey(Message):
    """Whose offset it is, in the form that Kafka wrote before version 0.9."""

    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message(versions="0")
class LegacyOffsetCommitValue(Message):
    """An offset in the form that Kafka wrote before version 0.9."""

    offset: int = wire(INT64, "0")
    metadata: str = wire(STRING, "0")
    commit_timestamp: int = wire(INT64, "0")


@message(versions="0")
class OffsetCommitKey(Message):
    """Whose offset it is, and for which partition."""

    group: str = wire(STRING, "0")
    topic: str = wire(STRING, "0")
    partition: int = wire(INT32, "0")


@message(versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """The next offset to read, and what was noted beside it."""

    offset: int = wire(INT64, "0+")
    leader_epoch: int = wire(INT32, "3+", default=-1, ignorable=True)
    metadata: str = wire(STRING, "0+")
    commit_timestamp: int = wire(INT64, "0+")
    # Only the requests of old clients name a time themselves; everything else expires with its group.
    expire_timestamp: int = wire(INT64, "1", default=-1, ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "4+", tag=0, tagged="4+", ignorable=True)
