"""Messages that commit, fetch and delete the offsets of groups."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT16, INT32, INT64, STRING, UUID, array


class OffsetCommitRequestPartition(Message):
    """The next offset to read in one partition, with the client's metadata."""

    partition_index: int = wire(INT32, "0+")
    committed_offset: int = wire(INT64, "0+")
    committed_leader_epoch: int = wire(INT32, "6+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, "0+", nullable="0+")


class OffsetCommitRequestTopic(Message):
    """The offsets for one topic."""

    name: str = wire(STRING, "0-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = wire(array(OffsetCommitRequestPartition), "0+")


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Message):
    """Commit the offsets of a group."""

    group_id: str = wire(STRING, "0+")
    # -1 for a consumer that assigns its own partitions
    generation_id_or_member_epoch: int = wire(INT32, "1+", default=-1, ignorable=True)
    member_id: str = wire(STRING, "1+", ignorable=True)
    group_instance_id: str | None = wire(STRING, "7+", nullable="7+", default=None)  # KIP-345
    # KIP-211 moved the retention to the broker
    retention_time_ms: int = wire(INT64, "2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = wire(array(OffsetCommitRequestTopic), "0+")


class OffsetCommitResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class OffsetCommitResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = wire(array(OffsetCommitResponsePartition), "0+")


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    """Whether each offset was stored."""

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = wire(array(OffsetCommitResponseTopic), "0+")


class OffsetFetchRequestTopic(Message):
    """The requested partitions of one topic, before version 8."""

    name: str = wire(STRING, "0-7")
    partition_indexes: list[int] = wire(array(INT32), "0-7")


class OffsetFetchRequestGroupTopic(Message):
    """The requested partitions of one topic, from version 8."""

    name: str = wire(STRING, "8-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partition_indexes: list[int] = wire(array(INT32), "8+")


class OffsetFetchRequestGroup(Message):
    """The requested offsets of one group."""

    group_id: str = wire(STRING, "8+")
    member_id: str | None = wire(STRING, "9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = wire(INT32, "9+", default=-1, ignorable=True)
    # null for all
    topics: list[OffsetFetchRequestGroupTopic] | None = wire(array(OffsetFetchRequestGroupTopic), "8+", nullable="8+")


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Message):
    """Request the committed offsets of one group or, from version 8, of several (KIP-709)."""

    group_id: str = wire(STRING, "0-7")
    # null for all
    topics: list[OffsetFetchRequestTopic] | None = wire(array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = wire(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = wire(BOOLEAN, "7+")  # KIP-447: wait for open transactions


class OffsetFetchResponsePartition(Message):
    """The committed offset of one partition, or -1, before version 8."""

    partition_index: int = wire(INT32, "0-7")
    committed_offset: int = wire(INT64, "0-7")
    committed_leader_epoch: int = wire(INT32, "5-7", default=-1, ignorable=True)
    metadata: str | None = wire(STRING, "0-7", nullable="0-7")
    error_code: int = wire(INT16, "0-7")


class OffsetFetchResponseTopic(Message):
    """The offsets in one topic, before version 8."""

    name: str = wire(STRING, "0-7")
    partitions: list[OffsetFetchResponsePartition] = wire(array(OffsetFetchResponsePartition), "0-7")


class OffsetFetchResponseGroupPartition(Message):
    """The committed offset of one partition, or -1, from version 8."""

    partition_index: int = wire(INT32, "8+")
    committed_offset: int = wire(INT64, "8+")
    committed_leader_epoch: int = wire(INT32, "8+", default=-1, ignorable=True)
    metadata: str | None = wire(STRING, "8+", nullable="8+")
    error_code: int = wire(INT16, "8+")


class OffsetFetchResponseGroupTopic(Message):
    """The offsets in one topic, from version 8."""

    name: str = wire(STRING, "8-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: list[OffsetFetchResponseGroupPartition] = wire(array(OffsetFetchResponseGroupPartition), "8+")


class OffsetFetchResponseGroup(Message):
    """The offsets of one group."""

    group_id: str = wire(STRING, "8+")
    topics: list[OffsetFetchResponseGroupTopic] = wire(array(OffsetFetchResponseGroupTopic), "8+")
    error_code: int = wire(INT16, "8+")


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    """The committed offsets, for one group or for several."""

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = wire(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = wire(INT16, "2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = wire(array(OffsetFetchResponseGroup), "8+")


class OffsetDeleteRequestPartition(Message):
    """A partition whose offset is deleted."""

    partition_index: int = wire(INT32, "0+")


class OffsetDeleteRequestTopic(Message):
    """The partitions of one topic whose offsets are deleted."""

    name: str = wire(STRING, "0+")
    partitions: list[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition), "0+")


@message(key=47, versions="0")
class OffsetDeleteRequest(Message):
    """Delete the committed offsets of partitions that a group no longer reads (KIP-496)."""

    group_id: str = wire(STRING, "0+")
    topics: list[OffsetDeleteRequestTopic] = wire(array(OffsetDeleteRequestTopic), "0+")


class OffsetDeleteResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class OffsetDeleteResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[OffsetDeleteResponsePartition] = wire(array(OffsetDeleteResponsePartition), "0+")


@message(key=47, versions="0")
class OffsetDeleteResponse(Message):
    """Whether each offset was deleted."""

    error_code: int = wire(INT16, "0+")
    throttle_time_ms: int = wire(INT32, "0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = wire(array(OffsetDeleteResponseTopic), "0+")
