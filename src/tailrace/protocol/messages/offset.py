"""Messages that look up offsets by timestamp or leader epoch, or delete records up to an offset."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT8, INT16, INT32, INT64, STRING, array

PRODUCERS_TAG = 10_000  # of an extension of Tailrace, far from the tags that Kafka gives, from 0 on


class ListOffsetsRequestPartition(Message):
    """A timestamp to look up in one partition."""

    partition_index: int = wire(INT32, "0+")
    current_leader_epoch: int = wire(INT32, "4+", default=-1, ignorable=True)
    # -1 latest, -2 earliest, -3 largest timestamp (KIP-734), -4 earliest local (KIP-405), -5 last tiered (KIP-1005),
    # -6 earliest that is not yet tiered (KIP-1023)
    timestamp: int = wire(INT64, "0+")


class ListOffsetsRequestTopic(Message):
    """The requested partitions of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[ListOffsetsRequestPartition] = wire(array(ListOffsetsRequestPartition), "0+")


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Message):
    """Request the offset of a timestamp in each partition."""

    replica_id: int = wire(INT32, "0+")  # -1 for a consumer
    isolation_level: int = wire(INT8, "2+")
    topics: list[ListOffsetsRequestTopic] = wire(array(ListOffsetsRequestTopic), "0+")
    timeout_ms: int = wire(INT32, "10+", ignorable=True)


class ListOffsetsResponseBatch(Message):
    """A batch that the leader has deleted and still knows by its sequence numbers."""

    base_sequence: int = wire(INT32, "6+")
    last_sequence: int = wire(INT32, "6+")
    base_offset: int = wire(INT64, "6+")
    last_offset: int = wire(INT64, "6+")
    timestamp: int = wire(INT64, "6+")


class ListOffsetsResponseProducer(Message):
    """A producer as the leader knew it before the start of its log."""

    producer_id: int = wire(INT64, "6+")
    producer_epoch: int = wire(INT16, "6+")
    coordinator_epoch: int = wire(INT32, "6+")
    current_txn_first_offset: int = wire(INT64, "6+")
    last_timestamp: int = wire(INT64, "6+")
    idle_ms: int = wire(INT64, "6+")  # since its last batch, by which it expires; clocks of brokers differ
    batches: list[ListOffsetsResponseBatch] = wire(array(ListOffsetsResponseBatch), "6+")


class ListOffsetsResponsePartition(Message):
    """The first offset at or after the timestamp; -1 for both if there is none."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    timestamp: int = wire(INT64, "1+", default=-1)
    offset: int = wire(INT64, "1+", default=-1)
    leader_epoch: int = wire(INT32, "4+", default=-1)
    # for a follower that asks for the earliest offset: it cannot read these producers from the log any more
    producers: list[ListOffsetsResponseProducer] = wire(
        array(ListOffsetsResponseProducer), "6+", tag=PRODUCERS_TAG, tagged="6+"
    )


class ListOffsetsResponseTopic(Message):
    """The offsets found in one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[ListOffsetsResponsePartition] = wire(array(ListOffsetsResponsePartition), "0+")


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """The offsets found."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: list[ListOffsetsResponseTopic] = wire(array(ListOffsetsResponseTopic), "0+")


class OffsetForLeaderEpochRequestPartition(Message):
    """A leader epoch to look up in one partition."""

    partition: int = wire(INT32, "0+")
    current_leader_epoch: int = wire(INT32, "2+", default=-1, ignorable=True)
    leader_epoch: int = wire(INT32, "0+")


class OffsetForLeaderEpochRequestTopic(Message):
    """The requested partitions of one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[OffsetForLeaderEpochRequestPartition] = wire(array(OffsetForLeaderEpochRequestPartition), "0+")


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    """Request the end offset of a leader epoch, to find where two logs diverge (KIP-101, KIP-320)."""

    # -1 for a consumer, -2 for a debugging tool that may use any replica
    replica_id: int = wire(INT32, "3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderEpochRequestTopic] = wire(array(OffsetForLeaderEpochRequestTopic), "0+")


class OffsetForLeaderEpochResponsePartition(Message):
    """The largest epoch not above the requested one, and the offset after its last record."""

    error_code: int = wire(INT16, "0+")
    partition: int = wire(INT32, "0+")
    leader_epoch: int = wire(INT32, "1+", default=-1, ignorable=True)
    end_offset: int = wire(INT64, "0+", default=-1)


class OffsetForLeaderEpochResponseTopic(Message):
    """The results of one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[OffsetForLeaderEpochResponsePartition] = wire(array(OffsetForLeaderEpochResponsePartition), "0+")


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """The end offsets of the epochs."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: list[OffsetForLeaderEpochResponseTopic] = wire(array(OffsetForLeaderEpochResponseTopic), "0+")


class DeleteRecordsRequestPartition(Message):
    """The offset before which all records are deleted."""

    partition_index: int = wire(INT32, "0+")
    offset: int = wire(INT64, "0+")  # -1 means the high watermark


class DeleteRecordsRequestTopic(Message):
    """The partitions of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[DeleteRecordsRequestPartition] = wire(array(DeleteRecordsRequestPartition), "0+")


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    """Advance the log start offset of partitions, which deletes the records before it (KIP-107)."""

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
    """The new log start offsets."""

    throttle_time_ms: int = wire(INT32, "0+")
    topics: list[DeleteRecordsResponseTopic] = wire(array(DeleteRecordsResponseTopic), "0+")
