"""Offsets of a log: by timestamp, by leader epoch, and records deleted up to one."""

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import INT8, INT16, INT32, INT64, STRING, array


class ListOffsetsRequestPartition(Message):
    """A timestamp to look up in one partition."""

    partition_index: int = wire(INT32, "0+")
    current_leader_epoch: int = wire(INT32, "4+", default=-1, ignorable=True)
    # -1 latest, -2 earliest, -3 largest timestamp (KIP-734), -4 earliest local (KIP-405), -5 last tiered (KIP-1005),
    # -6 earliest that is not yet tiered (KIP-1023)
    timestamp: int = wire(INT64, "0+")


class ListOffsetsRequestTopic(Message):
    """The partitions asked about in one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[ListOffsetsRequestPartition] = wire(array(ListOffsetsRequestPartition), "0+")


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Message):
    """Ask for the offset that belongs to a timestamp in each partition."""

    replica_id: int = wire(INT32, "0+")  # -1 for a consumer
    isolation_level: int = wire(INT8, "2+")
    topics: list[ListOffsetsRequestTopic] = wire(array(ListOffsetsRequestTopic), "0+")
    timeout_ms: int = wire(INT32, "10+", ignorable=True)


class ListOffsetsResponsePartition(Message):
    """The first offset at or after the timestamp; -1 for both when there is none."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    timestamp: int = wire(INT64, "1+", default=-1)
    offset: int = wire(INT64, "1+", default=-1)
    leader_epoch: int = wire(INT32, "4+", default=-1)


class ListOffsetsResponseTopic(Message):
    """What was found in one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[ListOffsetsResponsePartition] = wire(array(ListOffsetsResponsePartition), "0+")


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """The offsets that were found."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: list[ListOffsetsResponseTopic] = wire(array(ListOffsetsResponseTopic), "0+")


class OffsetForLeaderEpochRequestPartition(Message):
    """The epoch to look up in one partition."""

    partition: int = wire(INT32, "0+")
    current_leader_epoch: int = wire(INT32, "2+", default=-1, ignorable=True)
    leader_epoch: int = wire(INT32, "0+")


class OffsetForLeaderEpochRequestTopic(Message):
    """The partitions asked about in one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[OffsetForLeaderEpochRequestPartition] = wire(array(OffsetForLeaderEpochRequestPartition), "0+")


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    """Ask where a leader epoch ended, to find the point where two logs part (KIP-101, KIP-320)."""

    # -1 for a consumer, -2 for a debugging tool that may ask any replica
    replica_id: int = wire(INT32, "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequestTopic] = wire(array(OffsetForLeaderEpochRequestTopic), "0+")


class OffsetForLeaderEpochResponsePartition(Message):
    """The largest epoch not above the one asked for, and the offset behind its last record."""

    error_code: int = wire(INT16, "0+")
    partition: int = wire(INT32, "0+")
    leader_epoch: int = wire(INT32, "1+", default=-1, ignorable=True)
    end_offset: int = wire(INT64, "0+", default=-1)


class OffsetForLeaderEpochResponseTopic(Message):
    """The answers for one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[OffsetForLeaderEpochResponsePartition] = wire(array(OffsetForLeaderEpochResponsePartition), "0+")


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """Where the epochs ended."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponseTopic] = wire(array(OffsetForLeaderEpochResponseTopic), "0+")


class DeleteRecordsRequestPartition(Message):
    """The offset before which everything goes."""

    partition_index: int = wire(INT32, "0+")
    offset: int = wire(INT64, "0+")  # -1 means the high watermark


class DeleteRecordsRequestTopic(Message):
    """The partitions to cut in one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[DeleteRecordsRequestPartition] = wire(array(DeleteRecordsRequestPartition), "0+")


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    """Move the log start of partitions forward, which deletes what is before it (KIP-107)."""

    topics: list[DeleteRecordsRequestTopic] = wire(array(DeleteRecordsRequestTopic), "0+")
    timeout_ms: int = wire(INT32, "0+")


class DeleteRecordsResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    low_watermark: int = wire(INT64, "0+")
    error_code: int = wire(INT16, "0+")


class DeleteRecordsResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[DeleteRecordsResponsePartition] = wire(array(DeleteRecordsResponsePartition), "0+")


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    """Where the logs start now."""

    throttle_time_ms: int = wire(INT32, "0+")
    topics: list[DeleteRecordsResponseTopic] = wire(array(DeleteRecordsResponseTopic), "0+")
