"""Subscriptions and assignments of the classic protocol, decoded and encoded for a consumer group."""

from struct import Struct
from uuid import UUID

from tailrace.base.limits import REQUEST_ELEMENTS_MAX
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.group.assignor.assignor import Assignment
from tailrace.machines.group.consumer.reconciliation import Owned
from tailrace.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_versioned,
    encode_versioned,
)

_VERSION = Struct(">h")


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode the subscription of a member; raise RemoteProtocolError if the bytes are not one."""
    return decode_versioned(ConsumerProtocolSubscription, metadata, REQUEST_ELEMENTS_MAX)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode the assignment of a member, which is empty if the member has just joined."""
    if not data:
        return ConsumerProtocolAssignment()
    return decode_versioned(ConsumerProtocolAssignment, data, REQUEST_ELEMENTS_MAX)


def encode_assignment(assignment: Assignment, metadata: bytes, image: ClusterImage) -> bytes:
    """Encode an assignment in the version of the member's own metadata, without the topics that were deleted."""
    newest = ConsumerProtocolAssignment.SCHEMA.versions[-1]
    version = min(_VERSION.unpack_from(metadata)[0], newest) if len(metadata) >= _VERSION.size else newest
    topics = [
        ConsumerProtocolTopicPartition(topic=image.topics_by_id[topic_id].name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(assignment.items())
        if topic_id in image.topics_by_id
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def partitions_by_id(topics: list[ConsumerProtocolTopicPartition], image: ClusterImage) -> Owned:
    """Group partitions by topic id, without the topics that do not exist any more."""
    found: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        known = image.topics.get(topic.topic)
        if known is not None and topic.partitions:
            found[known.topic_id] = found.get(known.topic_id, frozenset()) | frozenset(topic.partitions)
    return found
