"""Consumer groups in the reply of ConsumerGroupDescribe."""

from collections.abc import Iterable
from uuid import UUID

from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.group.assignor.assignor import NOTHING, Assignment
from tailrace.machines.group.consumer.group import ConsumerGroup
from tailrace.machines.group.consumer.member import ConsumerMember
from tailrace.machines.group.consumer.target import preferred_assignor
from tailrace.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The protocols of members: classic and consumer."""


def describe(group: ConsumerGroup, image: ClusterImage, default_assignor: str) -> ConsumerGroupDescribeResponseGroup:
    """Describe a group, its epochs, and the partitions and the target of each member."""
    return ConsumerGroupDescribeResponseGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, default_assignor),
        members=[_member(group, member, image) for _, member in sorted(group.members.items())],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> ConsumerGroupDescribeResponseMember:
    # A member owns the partitions that it has to revoke until it reports that it has revoked them.
    held = [
        (topic_id, index)
        for assigned in (member.assigned, member.pending_revocation)
        for topic_id, indexes in assigned.items()
        for index in indexes
    ]
    return ConsumerGroupDescribeResponseMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(_pairs(group.targets.get(member.member_id, NOTHING)), image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _pairs(assignment: Assignment) -> list[tuple[UUID, int]]:
    return [(topic_id, index) for topic_id, indexes in assignment.items() for index in indexes]


def _assignment(pairs: Iterable[tuple[UUID, int]], image: ClusterImage) -> ConsumerGroupDescribeResponseAssignment:
    """Group partitions by topic, without the topics that were deleted."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(pairs):
        topics.setdefault(topic_id, []).append(index)
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=image.topics_by_id[topic_id].name, partitions=indexes
            )
            for topic_id, indexes in topics.items()
            if topic_id in image.topics_by_id
        ]
    )
