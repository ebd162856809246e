"""Conversions between the state of a consumer group and its records."""

from collections.abc import Iterable

from tailrace.machines.group.assignor.assignor import Assignment
from tailrace.machines.group.consumer.member import (
    ClassicMember,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    SupportedProtocol,
)
from tailrace.machines.group.record.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentAssignmentTopicPartitions,
    TargetAssignmentTopicPartition,
)
from tailrace.machines.log_record import Record


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Build the record of the group epoch and of the hash of its topics."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Build the record of a member and its subscription."""
    classic = None
    if member.classic is not None:
        protocols = [ClassicProtocol(name=one.name, metadata=one.metadata) for one in member.classic.protocols]
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms, supported_protocols=protocols
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> Record:
    """Build the record of the target of a member."""
    topics = [
        TargetAssignmentTopicPartition(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(assignment.items())
    ]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Build the record of the group epoch for which the targets were computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Build the record of the epoch, the state and the partitions of a member."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def regex_record(group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int) -> Record:
    """Build the record of the topics that a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Build the tombstone of a regular expression that no member uses any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Build the tombstone of the record that Kafka 4.0 wrote in place of the metadata hash."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def current_tombstone(group_id: str, member_id: str) -> Record:
    """Build the tombstone of the epoch and the partitions of a member."""
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> Record:
    """Build the tombstone of the target of a member."""
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def member_tombstone(group_id: str, member_id: str) -> Record:
    """Build the tombstone of a member."""
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Build all tombstones of a member, in the order in which they must be replayed."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[Record]:
    """Build all tombstones of a group."""
    members = list(member_ids)
    return [
        *(current_tombstone(group_id, member_id) for member_id in members),
        *(target_tombstone(group_id, member_id) for member_id in members),
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(member_tombstone(group_id, member_id) for member_id in members),
        *(regex_tombstone(group_id, regex) for regex in regexes),
        partition_metadata_tombstone(group_id),
        Record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _topic_partitions(assigned: PartitionEpochs) -> list[CurrentAssignmentTopicPartitions]:
    return [
        CurrentAssignmentTopicPartitions(
            topic_id=topic_id, partitions=sorted(epochs), assignment_epochs=[epochs[index] for index in sorted(epochs)]
        )
        for topic_id, epochs in sorted(assigned.items())
    ]


def partition_epochs(topics: list[CurrentAssignmentTopicPartitions], default_epoch: int) -> PartitionEpochs:
    """Return the partitions in a record; Kafka before 4.3 wrote no epochs for them, so the member epoch counts."""
    fallback = max(default_epoch, 0)  # the epoch of a static member that left temporarily is negative
    assigned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [fallback] * len(topic.partitions)
        assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned


def target_assignment(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """Return the target in a record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def classic_member(value: ConsumerGroupMemberMetadataValue) -> ClassicMember | None:
    """Return the classic part of a member in a record; None if it uses the consumer protocol."""
    metadata = value.classic_member_metadata
    if metadata is None:
        return None
    protocols = tuple(SupportedProtocol(one.name, bytes(one.metadata)) for one in metadata.supported_protocols)
    return ClassicMember(metadata.session_timeout_ms, protocols)


def member_state(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """Return the state in a record."""
    return MemberState.of(value.state)
