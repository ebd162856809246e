"""Messages that create, delete, extend and describe topics."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, OPERATIONS_UNASKED, STRING, UUID, array


class CreateTopicsRequestAssignment(Message):
    """The brokers for one partition."""

    partition_index: int = wire(INT32, "0+")
    broker_ids: list[int] = wire(array(INT32), "0+")


class CreateTopicsRequestConfig(Message):
    """A config of the topic."""

    name: str = wire(STRING, "0+")
    value: str | None = wire(STRING, "0+", nullable="0+")


class CreateTopicsRequestTopic(Message):
    """A topic to create."""

    name: str = wire(STRING, "0+")
    # -1: given by the assignments or, from version 4, the broker's default (KIP-464)
    num_partitions: int = wire(INT32, "0+")
    replication_factor: int = wire(INT16, "0+")
    assignments: list[CreateTopicsRequestAssignment] = wire(array(CreateTopicsRequestAssignment), "0+")
    configs: list[CreateTopicsRequestConfig] = wire(array(CreateTopicsRequestConfig), "0+")


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Message):
    """Create topics, or only validate the request."""

    topics: list[CreateTopicsRequestTopic] = wire(array(CreateTopicsRequestTopic), "0+")
    timeout_ms: int = wire(INT32, "0+", default=60000)
    validate_only: bool = wire(BOOLEAN, "1+")


class CreateTopicsResponseConfig(Message):
    """A config of the created topic."""

    name: str = wire(STRING, "5+")
    value: str | None = wire(STRING, "5+", nullable="5+")
    read_only: bool = wire(BOOLEAN, "5+")
    config_source: int = wire(INT8, "5+", default=-1, ignorable=True)
    is_sensitive: bool = wire(BOOLEAN, "5+")


class CreateTopicsResponseTopic(Message):
    """The outcome for one topic and, from version 5, its properties (KIP-525)."""

    name: str = wire(STRING, "0+")
    topic_id: uuid.UUID = wire(UUID, "7+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = wire(INT16, "5+", tag=0, tagged="5+", ignorable=True)
    num_partitions: int = wire(INT32, "5+", default=-1, ignorable=True)
    replication_factor: int = wire(INT16, "5+", default=-1, ignorable=True)
    configs: list[CreateTopicsResponseConfig] | None = wire(
        array(CreateTopicsResponseConfig), "5+", nullable="5+", ignorable=True
    )


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    """Whether each topic was created."""

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: list[CreateTopicsResponseTopic] = wire(array(CreateTopicsResponseTopic), "0+")


class DeleteTopicsRequestTopic(Message):
    """A topic by name or, with a null name, by id."""

    name: str | None = wire(STRING, "6+", nullable="6+", default=None)
    topic_id: uuid.UUID = wire(UUID, "6+")


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Message):
    """Delete topics."""

    topics: list[DeleteTopicsRequestTopic] = wire(array(DeleteTopicsRequestTopic), "6+")
    topic_names: list[str] = wire(array(STRING), "0-5", ignorable=True)
    timeout_ms: int = wire(INT32, "0+")


class DeleteTopicsResponseTopic(Message):
    """The outcome for one topic."""

    name: str | None = wire(STRING, "0+", nullable="6+")
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)


@message(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """Whether each topic was deleted."""

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    responses: list[DeleteTopicsResponseTopic] = wire(array(DeleteTopicsResponseTopic), "0+")


class CreatePartitionsRequestAssignment(Message):
    """The brokers for one new partition."""

    broker_ids: list[int] = wire(array(INT32), "0+")


class CreatePartitionsRequestTopic(Message):
    """The new number of partitions of one topic."""

    name: str = wire(STRING, "0+")
    count: int = wire(INT32, "0+")  # all partitions, not only the new ones
    assignments: list[CreatePartitionsRequestAssignment] | None = wire(
        array(CreatePartitionsRequestAssignment), "0+", nullable="0+"
    )


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    """Increase the number of partitions of topics."""

    topics: list[CreatePartitionsRequestTopic] = wire(array(CreatePartitionsRequestTopic), "0+")
    timeout_ms: int = wire(INT32, "0+")
    validate_only: bool = wire(BOOLEAN, "0+")


class CreatePartitionsResponseTopic(Message):
    """The outcome for one topic."""

    name: str = wire(STRING, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)


@message(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """Whether the partitions of each topic were created."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[CreatePartitionsResponseTopic] = wire(array(CreatePartitionsResponseTopic), "0+")


class DescribeTopicPartitionsRequestTopic(Message):
    """A topic to describe."""

    name: str = wire(STRING, "0+")


class DescribeTopicPartitionsRequestCursor(Message):
    """The first partition of this page."""

    topic_name: str = wire(STRING, "0+")
    partition_index: int = wire(INT32, "0+")


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    """Request the partitions of topics, page by page (KIP-966)."""

    topics: list[DescribeTopicPartitionsRequestTopic] = wire(array(DescribeTopicPartitionsRequestTopic), "0+")
    response_partition_limit: int = wire(INT32, "0+", default=2000)
    cursor: DescribeTopicPartitionsRequestCursor | None = wire(
        DescribeTopicPartitionsRequestCursor, "0+", nullable="0+", default=None
    )


class DescribeTopicPartitionsResponsePartition(Message):
    """The replicas of one partition."""

    error_code: int = wire(INT16, "0+")
    partition_index: int = wire(INT32, "0+")
    leader_id: int = wire(INT32, "0+")
    leader_epoch: int = wire(INT32, "0+", default=-1, ignorable=True)
    replica_nodes: list[int] = wire(array(INT32), "0+")
    isr_nodes: list[int] = wire(array(INT32), "0+")
    eligible_leader_replicas: list[int] | None = wire(array(INT32), "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = wire(array(INT32), "0+", nullable="0+", default=None)
    offline_replicas: list[int] = wire(array(INT32), "0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Message):
    """A topic and its partitions on this page."""

    error_code: int = wire(INT16, "0+")
    name: str | None = wire(STRING, "0+", nullable="0+")
    topic_id: uuid.UUID = wire(UUID, "0+", ignorable=True)
    is_internal: bool = wire(BOOLEAN, "0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire(
        array(DescribeTopicPartitionsResponsePartition), "0+"
    )
    topic_authorized_operations: int = wire(INT32, "0+", default=OPERATIONS_UNASKED)


class DescribeTopicPartitionsResponseCursor(Message):
    """The first partition of the next page."""

    topic_name: str = wire(STRING, "0+")
    partition_index: int = wire(INT32, "0+")


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    """One page of partitions."""

    throttle_time_ms: int = wire(INT32, "0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire(array(DescribeTopicPartitionsResponseTopic), "0+")
    next_cursor: DescribeTopicPartitionsResponseCursor | None = wire(
        DescribeTopicPartitionsResponseCursor, "0+", nullable="0+", default=None
    )
