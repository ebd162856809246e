"""The records of a consumer group, made from its values and turned back into them."""

from collections.abc import Iterable

from runnel.machines.group.assignor import Assignment
from runnel.machines.group.consumer_member import (
    ClassicMember,
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    SupportedProtocol,
)
from runnel.machines.group.record.consumer import (
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
from runnel.machines.log_record import Record


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group's epoch, bumped whenever its target has to be computed anew."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Who a member is and what it is subscribed to."""
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
    """What a member shall have."""
    topics = [
        TargetAssignmentTopicPartition(topic_id=topic_id, partitions=sorted(indexes))
        for topic_id, indexes in sorted(assignment.items())
    ]
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The group epoch for which the targets were computed."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """What a member has, and how far it is."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def regex_record(group_id: str, regex: str, topics: Iterable[str], version: int, timestamp_ms: int) -> Record:
    """The topics that a regular expression stands for."""
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=timestamp_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> Record:
    """Nobody is subscribed to a regular expression any more."""
    return Record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def partition_metadata_tombstone(group_id: str) -> Record:
    """Takes away what Kafka 4.0 kept in place of the metadata hash."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def current_tombstone(group_id: str, member_id: str) -> Record:
    """A member has nothing any more."""
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)


def target_tombstone(group_id: str, member_id: str) -> Record:
    """A member shall have nothing any more."""
    return Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)


def member_tombstone(group_id: str, member_id: str) -> Record:
    """A member is gone."""
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """All that removes a member, in the order that a replay asks for."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[Record]:
    """All that removes a group."""
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
    """The partitions of a record; Kafka before 4.3 wrote no epoch of each, so they count from the member's own."""
    fallback = max(default_epoch, 0)  # a static member that is away has a negative one
    assigned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [fallback] * len(topic.partitions)
        assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned


def target_assignment(value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    """The target that a record holds."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def classic_member(value: ConsumerGroupMemberMetadataValue) -> ClassicMember | None:
    """What a record says of a member that speaks the classic protocol."""
    metadata = value.classic_member_metadata
    if metadata is None:
        return None
    protocols = tuple(SupportedProtocol(one.name, bytes(one.metadata)) for one in metadata.supported_protocols)
    return ClassicMember(metadata.session_timeout_ms, protocols)


def member_state(value: ConsumerGroupCurrentMemberAssignmentValue) -> MemberState:
    """The state that a record holds."""
    return MemberState.of(value.state)
