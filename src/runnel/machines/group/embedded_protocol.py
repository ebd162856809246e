"""What members of the classic protocol say in bytes of their own, read and written for a group of the new one."""

from struct import Struct
from uuid import UUID

from runnel.machines.controller.image import ClusterImage
from runnel.machines.group.assignor import Assignment
from runnel.machines.group.consumer_reconciliation import Owned
from runnel.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    decode_versioned,
    encode_versioned,
)

_VERSION = Struct(">h")


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """What a member wants and has; RemoteProtocolError for bytes that say neither."""
    return decode_versioned(ConsumerProtocolSubscription, metadata)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a member was given; nothing for one that has just joined."""
    return decode_versioned(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()


def encode_assignment(assignment: Assignment, metadata: bytes, image: ClusterImage) -> bytes:
    """What a member is given, in the version in which it spoke itself; deleted topics have no name to give."""
    newest = ConsumerProtocolAssignment.SCHEMA.versions[-1]
    version = min(_VERSION.unpack_from(metadata)[0], newest) if len(metadata) >= _VERSION.size else newest
    topics = [
        ConsumerProtocolTopicPartition(topic=image.topics_by_id[topic_id].name, partitions=sorted(indexes))
        for topic_id, indexes in sorted(assignment.items())
        if topic_id in image.topics_by_id
    ]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def partitions_by_id(topics: list[ConsumerProtocolTopicPartition], image: ClusterImage) -> Owned:
    """Partitions by topic id; topics that do not exist any more are left out."""
    found: dict[UUID, frozenset[int]] = {}
    for topic in topics:
        known = image.topics.get(topic.topic)
        if known is not None and topic.partitions:
            found[known.topic_id] = found.get(known.topic_id, frozenset()) | frozenset(topic.partitions)
    return found
