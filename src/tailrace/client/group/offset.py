"""Requests about committed offsets to the coordinator of a group."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tailrace.base.sentinel import NO_EPOCH, NO_OFFSET
from tailrace.client.group.coordinator import Coordinator
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.group_offset import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroupPartition,
    OffsetFetchResponsePartition,
)
from tailrace.protocol.primitive import ZERO_UUID

NO_IDS: Mapping[str, UUID] = {}
_NAMES_VERSION_MAX = 9  # the last versions that have topic names instead of ids
_BATCHED_VERSION = 8  # the first version in which OffsetFetch has several groups (KIP-709)


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next to read, metadata of the user, and the leader epoch of the record before it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of commits: a member in a generation or at an epoch, or a client that is not a member."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None

    @property
    def is_member(self) -> bool:
        return self.generation_id >= 0


NO_MEMBER = Identity()


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The group and the member whose offsets a transaction commits (KIP-447)."""

    group_id: str
    member: Identity = NO_MEMBER
    topic_ids: Mapping[str, UUID] = field(default_factory=dict, compare=False)
    """The ids of the topics that the member reads: no offset is committed for a later topic of the same name."""


async def commit_offsets(
    coordinator: Coordinator,
    identity: Identity,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[str, UUID] = NO_IDS,
) -> dict[TopicPartition, ErrorCode]:
    """Commit offsets, and return the outcome of each.

    With topic ids, an offset is never committed for another topic of the same name.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for target, wanted in offsets.items():
        topics.setdefault(target.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=target.partition,
                committed_offset=wanted.offset,
                committed_leader_epoch=wanted.leader_epoch,
                committed_metadata=wanted.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=coordinator.group_id,
        generation_id_or_member_epoch=identity.generation_id,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_ids.get(name, ZERO_UUID), partitions=found)
            for name, found in topics.items()
        ],
    )
    has_ids = all(topic.topic_id != ZERO_UUID for topic in request.topics)
    reply = await coordinator.request(
        request, OffsetCommitResponse, version_max=None if has_ids else _NAMES_VERSION_MAX
    )
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    return {
        TopicPartition(topic.name or names[topic.topic_id], partition.partition_index): ErrorCode(partition.error_code)
        for topic in reply.topics
        for partition in topic.partitions
    }


async def fetch_offsets(
    coordinator: Coordinator,
    targets: Iterable[TopicPartition] | None,
    identity: Identity = NO_MEMBER,
    *,
    require_stable: bool = True,
    topic_ids: Mapping[str, UUID] = NO_IDS,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the commits of these partitions, or of all for None, that have one. Raises `ApiError`.

    With topic ids, no commit for another topic of the same name is returned.
    """
    by_topic: dict[str, list[int]] | None = None
    if targets is not None:
        by_topic = {}
        for topic, partition in targets:
            by_topic.setdefault(topic, []).append(partition)
    connection = await coordinator.connection()
    has_ids = by_topic is not None and all(topic_ids.get(name, ZERO_UUID) != ZERO_UUID for name in by_topic)
    version = connection.version(OffsetFetchRequest, None if has_ids else _NAMES_VERSION_MAX)
    build = _batched_request if version >= _BATCHED_VERSION else _single_request
    request = build(coordinator.group_id, by_topic, identity, topic_ids)
    request.require_stable = require_stable
    reply = await coordinator.request(request, OffsetFetchResponse, version_max=version)
    coordinator.check(reply.error_code, "reading the offsets of")
    for group in reply.groups:
        coordinator.check(group.error_code, "reading the offsets of")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for item in reply.topics:
        for answer in item.partitions:
            _read(item.name, answer, found)
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    for answered in (topic for group in reply.groups for topic in group.topics):
        for one in answered.partitions:
            _read(answered.name or names[answered.topic_id], one, found)
    return found


def _read(
    topic: str,
    answer: OffsetFetchResponsePartition | OffsetFetchResponseGroupPartition,
    found: dict[TopicPartition, OffsetAndMetadata],
) -> None:
    target = TopicPartition(topic, answer.partition_index)
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code), f"reading the committed offset of {target}")
    if answer.committed_offset > NO_OFFSET:
        found[target] = OffsetAndMetadata(answer.committed_offset, answer.metadata or "", answer.committed_leader_epoch)


def _single_request(
    group_id: str, by_topic: Mapping[str, list[int]] | None, _identity: Identity, _ids: Mapping[str, UUID]
) -> OffsetFetchRequest:
    topics = None
    if by_topic is not None:
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in by_topic.items()]
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _batched_request(
    group_id: str, by_topic: Mapping[str, list[int]] | None, identity: Identity, ids: Mapping[str, UUID]
) -> OffsetFetchRequest:
    topics = None
    if by_topic is not None:
        topics = [
            OffsetFetchRequestGroupTopic(name=name, topic_id=ids.get(name, ZERO_UUID), partition_indexes=found)
            for name, found in by_topic.items()
        ]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    if identity.is_member:
        group.member_id, group.member_epoch = identity.member_id, identity.generation_id
    return OffsetFetchRequest(groups=[group])


async def delete_offsets(
    coordinator: Coordinator, targets: Iterable[TopicPartition]
) -> dict[TopicPartition, ApiError | None]:
    """Delete the commits of these partitions; returns the outcome of each. Raises `ApiError` for the group."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in targets:
        by_topic.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
    request = OffsetDeleteRequest(
        group_id=coordinator.group_id,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=found) for name, found in by_topic.items()],
    )
    reply = await coordinator.request(request, OffsetDeleteResponse)
    coordinator.check(reply.error_code, "deleting offsets of")
    return {
        TopicPartition(topic.name, partition.partition_index): ApiError(
            ErrorCode(partition.error_code), f"deleting the offset of {topic.name}-{partition.partition_index}"
        )
        if partition.error_code
        else None
        for topic in reply.topics
        for partition in topic.partitions
    }
