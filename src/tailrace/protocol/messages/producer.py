"""Messages about producer ids, on which idempotence and transactions are based."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT16, INT32, INT64, STRING, array


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    """Request a producer id and, for a transactional id, an epoch that fences older producers."""

    transactional_id: str | None = wire(STRING, "0+", nullable="0+")
    transaction_timeout_ms: int = wire(INT32, "0+")
    producer_id: int = wire(INT64, "3+", default=-1)  # KIP-360: a fenced producer may resume
    producer_epoch: int = wire(INT16, "3+", default=-1)
    enable2_pc: bool = wire(BOOLEAN, "6+")  # KIP-939: an external coordinator decides the outcome
    keep_prepared_txn: bool = wire(BOOLEAN, "6+")


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    """The producer id and epoch."""

    throttle_time_ms: int = wire(INT32, "0+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    producer_id: int = wire(INT64, "0+", default=-1)
    producer_epoch: int = wire(INT16, "0+")
    ongoing_txn_producer_id: int = wire(INT64, "6+", default=-1)  # KIP-939: of the kept prepared transaction
    ongoing_txn_producer_epoch: int = wire(INT16, "6+", default=-1)


class DescribeProducersRequestTopic(Message):
    """The requested partitions of one topic."""

    name: str = wire(STRING, "0+")
    partition_indexes: list[int] = wire(array(INT32), "0+")


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    """Request the active producers of partitions (KIP-664)."""

    topics: list[DescribeProducersRequestTopic] = wire(array(DescribeProducersRequestTopic), "0+")


class DescribeProducersResponseProducer(Message):
    """The state of one producer in the partition."""

    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT32, "0+")
    last_sequence: int = wire(INT32, "0+", default=-1)
    last_timestamp: int = wire(INT64, "0+", default=-1)
    coordinator_epoch: int = wire(INT32, "0+")
    current_txn_start_offset: int = wire(INT64, "0+", default=-1)


class DescribeProducersResponsePartition(Message):
    """The result of one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)
    active_producers: list[DescribeProducersResponseProducer] = wire(array(DescribeProducersResponseProducer), "0+")


class DescribeProducersResponseTopic(Message):
    """The results of one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[DescribeProducersResponsePartition] = wire(array(DescribeProducersResponsePartition), "0+")


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    """The active producers of each partition."""

    throttle_time_ms: int = wire(INT32, "0+")
    topics: list[DescribeProducersResponseTopic] = wire(array(DescribeProducersResponseTopic), "0+")
