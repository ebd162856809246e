"""Messages of the consumer protocol, in which the coordinator computes the assignment (KIP-848)."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BOOLEAN, INT8, INT16, INT32, OPERATIONS_UNASKED, STRING, UUID, array


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    """Partitions of one topic that the member owns."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    """Join, stay in or leave a group, and send the changes since the last heartbeat."""

    group_id: str = wire(STRING, "0+")
    member_id: str = wire(STRING, "0+")
    member_epoch: int = wire(INT32, "0+")  # 0 joins, -1 leaves, -2 leaves, but keeps the assignment of a static member
    instance_id: str | None = wire(STRING, "0+", nullable="0+", default=None)  # null here and below: not changed
    rack_id: str | None = wire(STRING, "0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, "0+", default=-1)
    subscribed_topic_names: list[str] | None = wire(array(STRING), "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = wire(STRING, "0+", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = wire(
        array(ConsumerGroupHeartbeatRequestTopicPartitions), "0+", nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


class ConsumerGroupHeartbeatResponseAssignment(Message):
    """The complete target assignment of the member."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = wire(
        array(ConsumerGroupHeartbeatResponseTopicPartitions), "0+"
    )


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    """The member's epoch and, if it changed, its assignment."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)
    member_id: str | None = wire(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = wire(INT32, "0+")
    heartbeat_interval_ms: int = wire(INT32, "0+")
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = wire(
        ConsumerGroupHeartbeatResponseAssignment, "0+", nullable="0+", default=None
    )


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    """Request the members of consumer groups."""

    group_ids: list[str] = wire(array(STRING), "0+")
    include_authorized_operations: bool = wire(BOOLEAN, "0+")


class ConsumerGroupDescribeResponseTopicPartitions(Message):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    topic_name: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


class ConsumerGroupDescribeResponseAssignment(Message):
    """Partitions of several topics."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = wire(
        array(ConsumerGroupDescribeResponseTopicPartitions), "0+"
    )


class ConsumerGroupDescribeResponseMember(Message):
    """A member with its current and its target assignment."""

    member_id: str = wire(STRING, "0+")
    instance_id: str | None = wire(STRING, "0+", nullable="0+", default=None)
    rack_id: str | None = wire(STRING, "0+", nullable="0+", default=None)
    member_epoch: int = wire(INT32, "0+")
    client_id: str = wire(STRING, "0+")
    client_host: str = wire(STRING, "0+")
    subscribed_topic_names: list[str] = wire(array(STRING), "0+")
    subscribed_topic_regex: str | None = wire(STRING, "0+", nullable="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment = wire(ConsumerGroupDescribeResponseAssignment, "0+")
    target_assignment: ConsumerGroupDescribeResponseAssignment = wire(ConsumerGroupDescribeResponseAssignment, "0+")
    member_type: int = wire(INT8, "1+", default=-1, ignorable=True)


class ConsumerGroupDescribeResponseGroup(Message):
    """A group, its epochs and its members."""

    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+", default=None)
    group_id: str = wire(STRING, "0+")
    group_state: str = wire(STRING, "0+")
    group_epoch: int = wire(INT32, "0+")
    assignment_epoch: int = wire(INT32, "0+")
    assignor_name: str = wire(STRING, "0+")
    members: list[ConsumerGroupDescribeResponseMember] = wire(array(ConsumerGroupDescribeResponseMember), "0+")
    authorized_operations: int = wire(INT32, "0+", default=OPERATIONS_UNASKED)


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    """The described groups."""

    throttle_time_ms: int = wire(INT32, "0+")
    groups: list[ConsumerGroupDescribeResponseGroup] = wire(array(ConsumerGroupDescribeResponseGroup), "0+")
