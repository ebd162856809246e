"""Messages about the cluster and the log folders of its brokers."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, INT64, OPERATIONS_UNASKED, STRING, array


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    """Request the brokers or the controllers of the cluster (KIP-700)."""

    include_cluster_authorized_operations: bool = wire(BOOLEAN, "0+")
    endpoint_type: int = wire(INT8, "1+", default=1)  # 1 brokers, 2 controllers (KIP-919)
    include_fenced_brokers: bool = wire(BOOLEAN, "2+")  # KIP-1073


class DescribeClusterResponseBroker(Message):
    """A broker and its address on the listener of the connection."""

    broker_id: int = wire(INT32, "0+")
    host: str = wire(STRING, "0+")
    port: int = wire(INT32, "0+")
    rack: str | None = wire(STRING, "0+", nullable="0+", default=None)
    is_fenced: bool = wire(BOOLEAN, "2+")


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    """The members of the cluster."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)
    endpoint_type: int = wire(INT8, "1+", default=1)
    cluster_id: str = wire(STRING, "0+")
    controller_id: int = wire(INT32, "0+", default=-1)
    brokers: list[DescribeClusterResponseBroker] = wire(array(DescribeClusterResponseBroker), "0+")
    cluster_authorized_operations: int = wire(INT32, "0+", default=OPERATIONS_UNASKED)


class DescribeLogDirsRequestTopic(Message):
    """The requested partitions of one topic."""

    topic: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    """Request the sizes of this broker's partitions and log folders (KIP-113)."""

    # null for all
    topics: list[DescribeLogDirsRequestTopic] | None = wire(array(DescribeLogDirsRequestTopic), "0+", nullable="0+")


class DescribeLogDirsResponsePartition(Message):
    """The log of one partition."""

    partition_index: int = wire(INT32, "0+")
    partition_size: int = wire(INT64, "0+")
    offset_lag: int = wire(INT64, "0+")
    is_future_key: bool = wire(BOOLEAN, "0+")


class DescribeLogDirsResponseTopic(Message):
    """The partitions of one topic in a folder."""

    name: str = wire(STRING, "0+")
    partitions: list[DescribeLogDirsResponsePartition] = wire(array(DescribeLogDirsResponsePartition), "0+")


class DescribeLogDirsResponseResult(Message):
    """One log folder."""

    error_code: int = wire(INT16, "0+")
    log_dir: str = wire(STRING, "0+")
    topics: list[DescribeLogDirsResponseTopic] = wire(array(DescribeLogDirsResponseTopic), "0+")
    total_bytes: int = wire(INT64, "4+", default=-1, ignorable=True)  # KIP-827: of the folder's file system
    usable_bytes: int = wire(INT64, "4+", default=-1, ignorable=True)
    is_cordoned: bool = wire(BOOLEAN, "5+", ignorable=True)


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    """Each log folder and its partitions."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "3+", ignorable=True)
    results: list[DescribeLogDirsResponseResult] = wire(array(DescribeLogDirsResponseResult), "0+")
