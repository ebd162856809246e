"""Messages with which a coordinator or an administrator writes transaction markers."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, INT64, STRING, array


class WriteTxnMarkersRequestTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING, "0+")
    partition_indexes: list[int] = wire(array(INT32), "0+")


class WriteTxnMarkersRequestMarker(Message):
    """The outcome of one producer's transaction, for partitions that this broker leads."""

    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT16, "0+")
    transaction_result: bool = wire(BOOLEAN, "0+")  # whether it was committed
    topics: list[WriteTxnMarkersRequestTopic] = wire(array(WriteTxnMarkersRequestTopic), "0+")
    coordinator_epoch: int = wire(INT32, "0+")
    transaction_version: int = wire(INT8, "2+", ignorable=True)  # KIP-1228: from 2 on, each marker has its own epoch


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    """Write transaction markers into the logs."""

    markers: list[WriteTxnMarkersRequestMarker] = wire(array(WriteTxnMarkersRequestMarker), "0+")


class WriteTxnMarkersResponsePartition(Message):
    """The outcome for one partition."""

    partition_index: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")


class WriteTxnMarkersResponseTopic(Message):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0+")
    partitions: list[WriteTxnMarkersResponsePartition] = wire(array(WriteTxnMarkersResponsePartition), "0+")


class WriteTxnMarkersResponseMarker(Message):
    """The outcomes for one producer."""

    producer_id: int = wire(INT64, "0+")
    topics: list[WriteTxnMarkersResponseTopic] = wire(array(WriteTxnMarkersResponseTopic), "0+")


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Whether each marker was written."""

    markers: list[WriteTxnMarkersResponseMarker] = wire(array(WriteTxnMarkersResponseMarker), "0+")
