"""A change of a partition's state, in fixed order: the ISR, the placement, the leader, the leader epoch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.election import Election, IsActive, Rule, elect, with_isr
from tailrace.machines.controller.image import Topic
from tailrace.machines.controller.reassignment import Placement, complete
from tailrace.machines.controller.record import PartitionRecord, TopicRecord


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the image has it."""

    state: PartitionRecord
    placement: Placement


def partition_of(topic: Topic, index: int) -> Partition | None:
    """Return the partition; None if the image does not have both its replicas and its state."""
    if (state := topic.leadership.get(index)) is None or not 0 <= index < topic.partition_count:
        return None
    return Partition(
        state, Placement(topic.assignment[index], topic.adding.get(index, ()), topic.removing.get(index, ()))
    )


def change_partition(
    now: Partition,
    rule: Rule,
    is_active: IsActive,
    *,
    isr: Sequence[int] | None = None,
    placement: Placement | None = None,
    unclean: Collection[int] = (),
    election: Election = Election.ONLINE,
) -> Partition:
    """Return the partition after a change of its ISR or placement, or after an election."""
    state, isr = now.state, now.state.isr if isr is None else isr
    target = now.placement if placement is None else placement
    if completed := complete(target, isr):
        target = completed
    isr = [broker for broker in isr if broker in target.replicas]
    changed = with_isr(state, isr, target.replicas, rule.min_insync_replicas, unclean)
    # A leader that came back unclean must not lead before it is elected again.
    leader_lost = state.leader in unclean
    elected = elect(changed, target.replicas, is_active, election, state)
    if completed := complete(target, elected.isr):
        target = completed  # the reassignment waited only for the new leader
    # A leader from outside the ISR is the new ISR. If that is large enough to commit records, the ELR ends.
    elected = with_isr(elected, elected.isr, target.replicas, rule.min_insync_replicas)
    # A replica that was removed must not be able to fetch as a follower any longer.
    is_shrinking = not set(now.placement.replicas) <= set(target.replicas)
    if elected.leader != state.leader or leader_lost or is_shrinking:
        elected = replace(elected, leader_epoch=state.leader_epoch + 1)
    changed_partition = Partition(elected, target)
    _check(changed_partition)
    return changed_partition


def _check(partition: Partition) -> None:
    """Check a state before it is handed to the metadata store: every broker acts on it without a second look."""
    state, replicas = partition.state, set(partition.placement.replicas)
    name = f"{state.topic}-{state.partition}"
    invariant(len(replicas) == len(partition.placement.replicas) > 0, f"{name} has no replicas or one twice")
    invariant(replicas.issuperset(state.isr), f"{name} has a broker in its ISR that is not a replica")
    invariant(replicas.issuperset(state.elr), f"{name} has a broker in its ELR that is not a replica")
    invariant(set(state.isr).isdisjoint(state.elr), f"{name} has a broker in both its ISR and its ELR")
    invariant(state.leader in (NO_BROKER, *state.isr), f"{name} has a leader that is not in its ISR")


def topic_record(topic: Topic, placements: dict[int, Placement]) -> TopicRecord:
    """Return the record of a topic with new placements for some of its partitions."""
    assignment, adding, removing = list(topic.assignment), dict(topic.adding), dict(topic.removing)
    for index, placement in placements.items():
        assignment[index] = placement.replicas
        for moves, brokers in ((adding, placement.adding), (removing, placement.removing)):
            moves.pop(index, None)
            if brokers:
                moves[index] = brokers
    return TopicRecord(topic.name, topic.topic_id, tuple(assignment), adding, removing)
