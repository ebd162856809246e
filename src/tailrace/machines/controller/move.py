"""Reassignments that clients request, cancel and list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.base.frames import without_frames
from tailrace.machines.controller.election import Election, Rule
from tailrace.machines.controller.image import ClusterImage, Topic
from tailrace.machines.controller.partition_change import Partition, change_partition, partition_of, topic_record
from tailrace.machines.controller.placement import check_replicas
from tailrace.machines.controller.reassignment import Placement, begin, revert
from tailrace.machines.controller.record import PartitionRecord, Record
from tailrace.protocol.errors import ApiError, ErrorCode


class Move(NamedTuple):
    """The target replicas of a partition; None cancels the reassignment in progress."""

    partition: int
    replicas: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Moved:
    """The outcome of the reassignments of one topic: records, and an error for each one that is refused."""

    records: list[Record]
    errors: dict[int, ApiError]


def decide_moves(
    image: ClusterImage, name: str, moves: Sequence[Move], rule: Rule, *, may_change_factor: bool = True
) -> Moved:
    """Decide the reassignments of one topic; the records are to be committed together."""
    topic = image.topics.get(name)
    states: dict[int, PartitionRecord] = {}
    placements: dict[int, Placement] = {}
    errors: dict[int, ApiError] = {}
    for index, replicas in moves:
        try:
            now = _require_partition(topic, name, index)
            changed = (
                _cancel(image, now, rule) if replicas is None else _move(image, now, replicas, rule, may_change_factor)
            )
        except ApiError as error:
            errors[index] = without_frames(error)
            continue
        if changed.placement != now.placement:
            placements[index] = changed.placement
        if changed.state != now.state:
            states[index] = changed.state
    records: list[Record] = [topic_record(topic, placements)] if topic is not None and placements else []
    return Moved([*records, *states.values()], errors)


def _require_partition(topic: Topic | None, name: str, index: int) -> Partition:
    if topic is None or (now := partition_of(topic, index)) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {name}-{index} does not exist.")
    return now


def _move(
    image: ClusterImage, now: Partition, replicas: Sequence[int], rule: Rule, may_change_factor: bool
) -> Partition:
    check_replicas(replicas, image.is_known, f"partition {now.state.partition}")
    factor = len(now.placement.replicas) - len(now.placement.removing)
    if not may_change_factor and len(replicas) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {factor} to {len(replicas)}, which the request does not allow.",
        )
    eligible = {*now.state.isr, *now.state.elr}
    return change_partition(now, rule, image.is_active, placement=begin(now.placement, replicas, eligible))


def _cancel(image: ClusterImage, now: Partition, rule: Rule) -> Partition:
    if not now.placement.is_moving:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
    before = revert(now.placement)
    election = Election.UNCLEAN if rule.is_unclean_allowed else Election.ONLINE
    if not rule.is_unclean_allowed and not {*now.state.isr, *now.state.elr} & set(before.replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The reassignment cannot be cancelled: none of the previous replicas {list(before.replicas)} is in sync.",
        )
    return change_partition(now, rule, image.is_active, placement=before, election=election)


def moving(image: ClusterImage, name: str, indexes: Sequence[int] | None = None) -> dict[int, Placement]:
    """Return the partitions of a topic that are being reassigned."""
    if (topic := image.topics.get(name)) is None:
        return {}
    found = {}
    for index in sorted({*topic.adding, *topic.removing} if indexes is None else set(indexes)):
        now = partition_of(topic, index)
        if now is not None and now.placement.is_moving:
            found[index] = now.placement
    return found
