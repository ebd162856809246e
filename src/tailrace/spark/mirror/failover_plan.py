"""The plan by which a group goes on in the target: the offsets to commit, and what speaks against it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.client.group.offset import OffsetAndMetadata
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.record import Checkpoint


class FailoverStep(NamedTuple):
    """The offset of a group in one partition of the target: before, after, and that of the source it stands for."""

    partition: TopicPartition
    source_offset: int
    before: int | None
    after: int
    left: int
    """The number of offsets after it, which the group reads in the target."""


@dataclass(slots=True)
class FailoverPlan:
    """The steps of a group, and the problems because of which none of them is taken."""

    group_id: str
    steps: list[FailoverStep] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def changes(self) -> dict[TopicPartition, int]:
        """The offsets to commit."""
        return {step.partition: step.after for step in self.steps if step.before != step.after}


def plan_failover(
    group_id: str,
    checkpoints: Mapping[TopicPartition, Checkpoint],
    there: Mapping[TopicPartition, OffsetAndMetadata],
    edges: Mapping[TopicPartition, tuple[int, int]],
    member_count: int,
) -> FailoverPlan:
    """Plan the move of a group; `there` and `edges` are its offsets and the ends of the logs in the target.

    A group that has already read on in the target stays where it is.
    """
    plan = FailoverPlan(group_id)
    if member_count:
        plan.problems.append(f"group {group_id} has {member_count} active members in the target; it has moved already")
    if not checkpoints:
        plan.problems.append(
            f"group {group_id} has no checkpoints in the target: it has committed no offsets in the source, or the "
            "mirror was started without it (--groups)"
        )
    for partition, checkpoint in sorted(checkpoints.items()):
        if partition not in edges:
            plan.problems.append(f"{partition} does not exist in the target")
            continue
        first, last = edges[partition]
        before = there[partition].offset if partition in there else None
        after = max(checkpoint.target_offset, before or 0)
        if after > last:
            plan.problems.append(
                f"{partition} ends at offset {last} in the target, before the offset {after} of the group"
            )
            continue
        if after < first:
            plan.notes.append(
                f"{partition} starts at offset {first} in the target: {first - after} offsets are deleted"
            )
            after = first
        plan.steps.append(FailoverStep(partition, checkpoint.source_offset, before, after, last - after))
    return plan
