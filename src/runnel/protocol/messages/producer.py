"""Identities of producers, which idempotence and transactions rest on."""

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BOOLEAN, INT16, INT32, INT64, STRING, array


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    """Ask for a producer id and, for a transactional id, an epoch that fences older producers."""

    transactional_id: str | None = wire(STRING, "0+", nullable="0+")
    transaction_timeout_ms: int = wire(INT32, "0+")
    producer_id: int = wire(INT64, "3+", default=-1)  # KIP-360: a fenced producer may resume
    producer_epoch: int = wire(INT16, "3+", default=-1)
    enable2_pc: bool = wire(BOOLEAN, "6+")  # KIP-939: someone else decides how the transaction ends
    keep_prepared_txn: bool = wire(BOOLEAN, "6+")


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    """The identity to write with."""

    throttle_time_ms: int = wire(INT32, "0+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    producer_id: int = wire(INT64, "0+", default=-1)
    producer_epoch: int = wire(INT16, "0+")
    ongoing_txn_producer_id: int = wire(INT64, "6+", default=-1)  # KIP-939: whose prepared transaction was kept
    ongoing_txn_producer_epoch: int = wire(INT16, "6+", default=-1)


class DescribeProducersRequestTopic(Message):
    """The partitions asked about in one topic."""

    name: str = wire(STRING, "0+")
    partition_indexes: list[int] = wire(array(INT32), "0+")


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    """Ask which producers are active on partitions (KIP-664)."""

    topics: list[DescribeProducersRequestTopic] = wire(array(DescribeProducersRequestTopic), "0+")


class DescribeProducersResponseProducer(Message):
    """What the partition remembers of one producer."""

    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT32, "0+")
    last_sequence: int = wire(INT32, "0+", default=-1)
    last_timestamp: int = wire(INT64, "0+", default=-1)
    coordinator_epoch: int = wire(INT32, "0+")
    current_txn_start_offset: int = wire(INT64, "0+", default=-1)


class DescribeProducersResponsePartition(Message):
    """The answers for one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)
    active_producers: list[DescribeProducersResponseProducer] = wire(array(DescribeProducersResponseProducer), "0+")


class DescribeProducersResponseTopic(Message):
    """The answers for one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[DescribeProducersResponsePartition] = wire(array(DescribeProducersResponsePartition), "0+")


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """The active producers of each partition."""

    throttle_time_ms: int = wire(INT32, "0+")
    topics: list[DescribeProducersResponseTopic] = wire(array(DescribeProducersResponseTopic), "0+")
