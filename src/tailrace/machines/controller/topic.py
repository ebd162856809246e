"""Decisions to create, grow and delete topics.

Each function reads the image and returns the records that would change it, or raises the Kafka error that says why the
change is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tailrace.base.limits import PARTITIONS_PER_REQUEST_MAX
from tailrace.base.topic_name import topic_name_problem
from tailrace.machines.controller.image import ClusterImage, Topic
from tailrace.machines.controller.placement import check_assignment, place_replicas
from tailrace.machines.controller.record import (
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.machines.controller.topic_step import next_removal
from tailrace.protocol.errors import ApiError, ErrorCode

DEFAULT = -1
"""A count of -1 asks for the broker's default (KIP-464)."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic as a client requests it."""

    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """The partition count and replication factor of topics that are created without them."""

    partition_count: int
    replication_factor: int


def decide_create(image: ClusterImage, new: NewTopic, topic_id: UUID, defaults: Defaults) -> list[Record]:
    """Decide to create a topic. The caller has validated its configs."""
    check_new_name(image, new.name)
    assignment = _assign_new(image, new, defaults)
    _check_size(len(assignment))
    # Without configs of its own, too: those that a late request left for a topic that was deleted must go.
    records: list[Record] = [TopicRecord(new.name, topic_id, assignment)]
    records.append(ConfigRecord(ConfigKind.TOPIC, new.name, new.configs or {}))
    return records + _first_leaders(image, new.name, assignment, first=0)


def check_new_name(image: ClusterImage, name: str) -> None:
    """Raise unless a topic of this name can be created."""
    if problem := topic_name_problem(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in image.hidden:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is being created or deleted.")
    if other := image.colliding_topic(name):
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _assign_new(image: ClusterImage, new: NewTopic, defaults: Defaults) -> tuple[tuple[int, ...], ...]:
    if new.assignment:
        return _assign_by_hand(image, new)
    if new.replication_factor < DEFAULT or new.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partition_count < DEFAULT or new.partition_count == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1 to use the default value."
        )
    partition_count = defaults.partition_count if new.partition_count == DEFAULT else new.partition_count
    replication_factor = defaults.replication_factor if new.replication_factor == DEFAULT else new.replication_factor
    _check_size(partition_count)
    return place_replicas(image.active_racks(), partition_count, replication_factor, start_index=len(image.topics))


def _assign_by_hand(image: ClusterImage, new: NewTopic) -> tuple[tuple[int, ...], ...]:
    by_partition = new.assignment or {}
    if new.replication_factor != DEFAULT or new.partition_count != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "With a manual partition assignment, the partition count and the replication factor must both be -1.",
        )
    if sorted(by_partition) != list(range(len(by_partition))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions of a manual assignment must be consecutive from 0."
        )
    return check_assignment([by_partition[partition] for partition in range(len(by_partition))], image.is_known)


def decide_add_partitions(
    image: ClusterImage, name: str, count: int, assignments: Sequence[Sequence[int]] | None
) -> list[Record]:
    """Decide to grow a topic to `count` partitions; `assignments` has the replicas of the new ones only."""
    topic = require_topic(image, name)
    current = topic.partition_count
    if count < current:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {count} would not be an increase.",
        )
    if count == current:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    added = count - current
    _check_size(added)
    if assignments is None:
        # A partition that is being reassigned has additional replicas.
        replication_factor = len(topic.assignment[0]) - len(topic.adding.get(0, ()))
        placed = place_replicas(image.active_racks(), added, replication_factor, start_index=current)
    elif len(assignments) != added:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were given.",
        )
    else:
        placed = check_assignment(assignments, image.is_known)
    grown = TopicRecord(topic.name, topic.topic_id, topic.assignment + placed, topic.adding, topic.removing)
    return [grown, *_first_leaders(image, topic.name, placed, first=current)]


def decide_delete(image: ClusterImage, name: str) -> list[Record]:
    """Decide to delete a topic, or the first step of that; call `next_removal` while the topic is hidden."""
    return next_removal(image, require_topic(image, name).name)


def require_topic(image: ClusterImage, name: str) -> Topic:
    """Return the topic of this name, or raise Kafka's error for an unknown one."""
    if (topic := image.topics.get(name)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    return topic


def _first_leaders(image: ClusterImage, name: str, assignment: Sequence[tuple[int, ...]], first: int) -> list[Record]:
    records: list[Record] = []
    for partition, replicas in enumerate(assignment, start=first):
        # A broker that is down has no records that others lack, but would keep the first records from being committed.
        isr = tuple(broker for broker in replicas if image.is_active(broker))
        if not isr:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"None of the replicas {list(replicas)} of partition {partition} is alive.",
            )
        records.append(PartitionRecord(name, partition, leader=isr[0], leader_epoch=0, isr=isr))
    return records


def _check_size(partition_count: int) -> None:
    if partition_count > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"{partition_count} partitions are too many for one request; the limit is {PARTITIONS_PER_REQUEST_MAX}.",
        )
