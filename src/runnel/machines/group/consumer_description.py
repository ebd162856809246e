"""ConsumerGroupDescribe: a consumer group as clients see it."""

from collections.abc import Iterable
from uuid import UUID

from runnel.machines.controller.image import ClusterImage
from runnel.machines.group.assignor import NOTHING, Assignment
from runnel.machines.group.consumer_group import ConsumerGroup
from runnel.machines.group.consumer_member import ConsumerMember
from runnel.machines.group.consumer_target import preferred_assignor
from runnel.protocol.messages.consumer_group import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""What speaks: a member of the classic protocol, or of the new one."""


def describe(group: ConsumerGroup, image: ClusterImage, default_assignor: str) -> ConsumerGroupDescribeResponseGroup:
    """The group, its epochs, and what each member has and shall have."""
    return ConsumerGroupDescribeResponseGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, default_assignor),
        members=[_member(group, member, image) for _, member in sorted(group.members.items())],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> ConsumerGroupDescribeResponseMember:
    # A member answers for what it has to let go until it says that it has.
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
    """Partitions by topic; those of a deleted topic have no name to show and are left out."""
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
