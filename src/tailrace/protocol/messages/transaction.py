"""Messages with which producers run transactions."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT16, INT32, INT64, STRING, UUID, array


class AddPartitionsToTxnRequestTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


class AddPartitionsToTxnRequestTransaction(Message):
    """The partitions of one transaction, from version 4."""

    transactional_id: str = wire(STRING, "4+")
    producer_id: int = wire(INT64, "4+")
    producer_epoch: int = wire(INT16, "4+")
    verify_only: bool = wire(BOOLEAN, "4+")  # only check that the partitions are already in the transaction
    topics: list[AddPartitionsToTxnRequestTopic] = wire(array(AddPartitionsToTxnRequestTopic), "4+")


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    """Add partitions to a transaction; from version 4, brokers use it for several transactions (KIP-890)."""

    transactions: list[AddPartitionsToTxnRequestTransaction] = wire(array(AddPartitionsToTxnRequestTransaction), "4+")
    v3_and_below_transactional_id: str = wire(STRING, "0-3")
    v3_and_below_producer_id: int = wire(INT64, "0-3")
    v3_and_below_producer_epoch: int = wire(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequestTopic] = wire(array(AddPartitionsToTxnRequestTopic), "0-3")


class AddPartitionsToTxnResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    partition_error_code: int = wire(INT16, "0+")


class AddPartitionsToTxnResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0+")
    results_by_partition: list[AddPartitionsToTxnResponsePartition] = wire(
        array(AddPartitionsToTxnResponsePartition), "0+"
    )


class AddPartitionsToTxnResponseTransaction(Message):
    """The outcomes for one transaction, from version 4."""

    transactional_id: str = wire(STRING, "4+")
    topic_results: list[AddPartitionsToTxnResponseTopic] = wire(array(AddPartitionsToTxnResponseTopic), "4+")


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    """Whether each partition is in the transaction."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponseTransaction] = wire(
        array(AddPartitionsToTxnResponseTransaction), "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponseTopic] = wire(
        array(AddPartitionsToTxnResponseTopic), "0-3"
    )


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    """Add a group's offsets to a transaction."""

    transactional_id: str = wire(STRING, "0+")
    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT16, "0+")
    group_id: str = wire(STRING, "0+")


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    """Whether the group's offsets are in the transaction."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class TxnOffsetCommitRequestPartition(Message):
    """The next offset to read in one partition."""

    partition_index: int = wire(INT32, "0+")
    committed_offset: int = wire(INT64, "0+")
    committed_leader_epoch: int = wire(INT32, "2+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, "0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Message):
    """The offsets for one topic."""

    name: str = wire(STRING, "0-5", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = wire(array(TxnOffsetCommitRequestPartition), "0+")


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest(Message):
    """Store offsets of a group that become committed with the transaction."""

    transactional_id: str = wire(STRING, "0+")
    group_id: str = wire(STRING, "0+")
    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT16, "0+")
    # KIP-447: fences members of older generations
    generation_id_or_member_epoch: int = wire(INT32, "3+", default=-1)
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic), "0+")


class TxnOffsetCommitResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class TxnOffsetCommitResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0-5", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = wire(array(TxnOffsetCommitResponsePartition), "0+")


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse(Message):
    """Whether each offset was stored."""

    throttle_time_ms: int = wire(INT32, "0+")
    topics: list[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic), "0+")


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    """Commit or abort a transaction."""

    transactional_id: str = wire(STRING, "0+")
    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT16, "0+")
    committed: bool = wire(BOOLEAN, "0+")


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """Whether the transaction was ended."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    # KIP-890: the next transaction has its own epoch
    producer_id: int = wire(INT64, "5+", default=-1, ignorable=True)
    producer_epoch: int = wire(INT16, "5+", default=-1, ignorable=True)
