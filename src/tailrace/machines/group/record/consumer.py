"""The records of a consumer group (KIP-848): one for each part of it that changes on its own."""

import uuid

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT8, INT32, INT64, STRING, UUID, array


@message(versions="0")
class ConsumerGroupMetadataKey(Message):
    """The id of a consumer group."""

    group_id: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """The epoch of a group, and the hash of its topics."""

    epoch: int = wire(INT32, "0+")
    metadata_hash: int = wire(
        INT64, "0+", tag=0, tagged="0+"
    )  # KIP-1101: of the topics that the group is subscribed to


@message(versions="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """The id of the group; Kafka up to 4.0 wrote values, and later versions write tombstones."""

    group_id: str = wire(STRING, "0")


class ConsumerGroupPartitionMetadataPartition(Message):
    """The racks of one partition."""

    partition: int = wire(INT32, "0+")
    racks: list[str] = wire(array(STRING), "0+")


class ConsumerGroupPartitionMetadataTopic(Message):
    """A topic when the group last checked it."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    topic_name: str = wire(STRING, "0+")
    num_partitions: int = wire(INT32, "0+")
    partition_metadata: list[ConsumerGroupPartitionMetadataPartition] = wire(
        array(ConsumerGroupPartitionMetadataPartition), "0+"
    )


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that a group is subscribed to."""

    topics: list[ConsumerGroupPartitionMetadataTopic] = wire(array(ConsumerGroupPartitionMetadataTopic), "0+")


@message(versions="0")
class ConsumerGroupMemberMetadataKey(Message):
    """The ids of the group and the member."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class ClassicProtocol(Message):
    """A protocol that a classic member supports, with its subscription."""

    name: str = wire(STRING, "0+")
    metadata: bytes = wire(BYTES, "0+")


class ClassicMemberMetadata(Message):
    """The fields that only a member of the classic protocol has."""

    session_timeout_ms: int = wire(INT32, "0+")
    supported_protocols: list[ClassicProtocol] = wire(array(ClassicProtocol), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """A member and its subscription; the classic metadata of a member of the consumer protocol is None."""

    instance_id: str | None = wire(STRING, "0+", nullable="0+")
    rack_id: str | None = wire(STRING, "0+", nullable="0+")
    client_id: str = wire(STRING, "0+")
    client_host: str = wire(STRING, "0+")
    subscribed_topic_names: list[str] = wire(array(STRING), "0+")
    subscribed_topic_regex: str | None = wire(STRING, "0+", nullable="0+")
    rebalance_timeout_ms: int = wire(INT32, "0+", default=-1)
    server_assignor: str | None = wire(STRING, "0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0, tagged="0+"
    )


@message(versions="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """The id of the group."""

    group_id: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The group epoch for which the targets were computed."""

    assignment_epoch: int = wire(INT32, "0+")
    assignment_timestamp: int = wire(INT64, "0+", tag=0, tagged="0+", ignorable=True)  # KIP-1263


@message(versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """The ids of the group and the member."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class TargetAssignmentTopicPartition(Message):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The target of a member."""

    topic_partitions: list[TargetAssignmentTopicPartition] = wire(array(TargetAssignmentTopicPartition), "0+")


@message(versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """The ids of the group and the member."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class CurrentAssignmentTopicPartitions(Message):
    """Partitions of one topic, each with the epoch in which the member got it."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")
    assignment_epochs: list[int] | None = wire(array(INT32), "0+", nullable="0+", tag=0, tagged="0+")


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The epoch of a member, its partitions, and those that it still has to revoke."""

    member_epoch: int = wire(INT32, "0+")
    previous_member_epoch: int = wire(INT32, "0+")
    state: int = wire(INT8, "0+")
    assigned_partitions: list[CurrentAssignmentTopicPartitions] = wire(array(CurrentAssignmentTopicPartitions), "0+")
    partitions_pending_revocation: list[CurrentAssignmentTopicPartitions] = wire(
        array(CurrentAssignmentTopicPartitions), "0+"
    )


@message(versions="0")
class ConsumerGroupRegularExpressionKey(Message):
    """The id of the group, and the regular expression."""

    group_id: str = wire(STRING, "0")
    regular_expression: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regular expression matches, as of a version of the metadata."""

    topics: list[str] = wire(array(STRING), "0+")
    version: int = wire(INT64, "0+")
    timestamp: int = wire(INT64, "0+")
