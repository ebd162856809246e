"""Messages about the brokers of the cluster and the replicas of partitions."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT16, INT32, OPERATIONS_UNASKED, STRING, UUID, array


class MetadataRequestTopic(Message):
    """A topic by name or, from version 12, by id with a null name."""

    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    name: str | None = wire(STRING, "0+", nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest(Message):
    """Request the brokers and some or all topics."""

    # all topics: an empty list in version 0, null from version 1
    topics: list[MetadataRequestTopic] | None = wire(array(MetadataRequestTopic), "0+", nullable="1+")
    allow_auto_topic_creation: bool = wire(BOOLEAN, "4+", default=True)
    include_cluster_authorized_operations: bool = wire(BOOLEAN, "8-10")  # KIP-700 moved it to DescribeCluster
    include_topic_authorized_operations: bool = wire(BOOLEAN, "8+")


class MetadataResponseBroker(Message):
    """A live broker and its address on the listener of the connection."""

    node_id: int = wire(INT32, "0+")
    host: str = wire(STRING, "0+")
    port: int = wire(INT32, "0+")
    rack: str | None = wire(STRING, "1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Message):
    """The replicas and the leader of one partition."""

    error_code: int = wire(INT16, "0+")
    partition_index: int = wire(INT32, "0+")
    leader_id: int = wire(INT32, "0+")
    leader_epoch: int = wire(INT32, "7+", default=-1, ignorable=True)
    replica_nodes: list[int] = wire(array(INT32), "0+")
    isr_nodes: list[int] = wire(array(INT32), "0+")
    offline_replicas: list[int] = wire(array(INT32), "5+", ignorable=True)


class MetadataResponseTopic(Message):
    """A topic and its partitions, or the error."""

    error_code: int = wire(INT16, "0+")
    name: str | None = wire(STRING, "0+", nullable="12+")
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    is_internal: bool = wire(BOOLEAN, "1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = wire(array(MetadataResponsePartition), "0+")
    # a bit field; the default means that the client did not request it
    topic_authorized_operations: int = wire(INT32, "8+", default=OPERATIONS_UNASKED)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    """The cluster metadata as known to this broker."""

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = wire(array(MetadataResponseBroker), "0+")
    cluster_id: str | None = wire(STRING, "2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = wire(INT32, "1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = wire(array(MetadataResponseTopic), "0+")
    cluster_authorized_operations: int = wire(INT32, "8-10", default=OPERATIONS_UNASKED)
    error_code: int = wire(INT16, "13+", ignorable=True)
