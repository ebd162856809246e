"""The records of a consumer group of the new protocol (KIP-848): one for each thing that changes by itself."""

import uuid

from runnel.protocol.message import Message, message, wire
from runnel.protocol.primitive import BYTES, INT8, INT32, INT64, STRING, UUID, array


@message(versions="0")
class ConsumerGroupMetadataKey(Message):
    """Which consumer group it is."""

    group_id: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """The epoch of a group."""

    epoch: int = wire(INT32, "0+")
    metadata_hash: int = wire(INT64, "0+", tag=0, tagged="0+")  # KIP-1101: of the topics that the group reads


@message(versions="0")
class ConsumerGroupPartitionMetadataKey(Message):
    """Which group's topics they are; Kafka up to 4.0 wrote these, and later ones write tombstones."""

    group_id: str = wire(STRING, "0")


class ConsumerGroupPartitionMetadataPartition(Message):
    """The racks of one partition."""

    partition: int = wire(INT32, "0+")
    racks: list[str] = wire(array(STRING), "0+")


class ConsumerGroupPartitionMetadataTopic(Message):
    """A topic as the group last saw it."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    topic_name: str = wire(STRING, "0+")
    num_partitions: int = wire(INT32, "0+")
    partition_metadata: list[ConsumerGroupPartitionMetadataPartition] = wire(
        array(ConsumerGroupPartitionMetadataPartition), "0+"
    )


@message(versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that a group reads."""

    topics: list[ConsumerGroupPartitionMetadataTopic] = wire(array(ConsumerGroupPartitionMetadataTopic), "0+")


@message(versions="0")
class ConsumerGroupMemberMetadataKey(Message):
    """Which member it is."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class ClassicProtocol(Message):
    """A way of dividing the work that a member of the classic protocol understands."""

    name: str = wire(STRING, "0+")
    metadata: bytes = wire(BYTES, "0+")


class ClassicMemberMetadata(Message):
    """What a member said when it joined with the classic protocol."""

    session_timeout_ms: int = wire(INT32, "0+")
    supported_protocols: list[ClassicProtocol] = wire(array(ClassicProtocol), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """A member and what it subscribes to; a member of the new protocol has None as its classic metadata."""

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
    """Which group's target it is."""

    group_id: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch of the group for which the target was computed."""

    assignment_epoch: int = wire(INT32, "0+")
    assignment_timestamp: int = wire(INT64, "0+", tag=0, tagged="0+", ignorable=True)  # KIP-1263


@message(versions="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Whose target it is."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class TargetAssignmentTopicPartition(Message):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


@message(versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member is to have."""

    topic_partitions: list[TargetAssignmentTopicPartition] = wire(array(TargetAssignmentTopicPartition), "0+")


@message(versions="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Whose partitions they are."""

    group_id: str = wire(STRING, "0")
    member_id: str = wire(STRING, "0")


class CurrentAssignmentTopicPartitions(Message):
    """Partitions of one topic, and since when the member has each."""

    topic_id: uuid.UUID = wire(UUID, "0+")
    partitions: list[int] = wire(array(INT32), "0+")
    assignment_epochs: list[int] | None = wire(array(INT32), "0+", nullable="0+", tag=0, tagged="0+")


@message(versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has, and those that it still has to let go."""

    member_epoch: int = wire(INT32, "0+")
    previous_member_epoch: int = wire(INT32, "0+")
    state: int = wire(INT8, "0+")
    assigned_partitions: list[CurrentAssignmentTopicPartitions] = wire(array(CurrentAssignmentTopicPartitions), "0+")
    partitions_pending_revocation: list[CurrentAssignmentTopicPartitions] = wire(
        array(CurrentAssignmentTopicPartitions), "0+"
    )


@message(versions="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Which group's regular expression it is."""

    group_id: str = wire(STRING, "0")
    regular_expression: str = wire(STRING, "0")


@message(versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that a regular expression means, as of a version of the metadata."""

    topics: list[str] = wire(array(STRING), "0+")
    version: int = wire(INT64, "0+")
    timestamp: int = wire(INT64, "0+")
