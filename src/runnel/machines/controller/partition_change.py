"""One change of a partition, from whichever reason: its ISR, then its placement, then its leader, then its epoch."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from runnel.machines.controller.election import Election, IsActive, Rule, elect, with_isr
from runnel.machines.controller.image import Topic
from runnel.machines.controller.reassignment import Placement, complete
from runnel.machines.controller.record import PartitionRecord, TopicRecord


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the image has it."""

    state: PartitionRecord
    placement: Placement


def partition_of(topic: Topic, index: int) -> Partition | None:
    """The partition, or None for one that the image does not know wholly."""
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
    """What becomes of a partition whose ISR or placement changes, or that shall have another leader."""
    state, isr = now.state, now.state.isr if isr is None else isr
    target = now.placement if placement is None else placement
    if completed := complete(target, isr):
        target = completed
    isr = [broker for broker in isr if broker in target.replicas]
    changed = with_isr(state, isr, target.replicas, rule.min_insync_replicas, unclean)
    # A leader that came back with a lost tail is no leader before it is elected again.
    leader_lost = state.leader in unclean
    elected = elect(changed, target.replicas, is_active, election, state.leader)
    if completed := complete(target, elected.isr):
        target = completed  # the new leader was all that was waited for
    # A leader from outside the ISR is the new ISR. If that is enough to commit by, nobody else is eligible any longer.
    elected = with_isr(elected, elected.isr, target.replicas, rule.min_insync_replicas)
    # A replica that goes must not be able to fetch as one any longer.
    is_shrinking = not set(now.placement.replicas) <= set(target.replicas)
    if elected.leader != state.leader or leader_lost or is_shrinking:
        elected = replace(elected, leader_epoch=state.leader_epoch + 1)
    return Partition(elected, target)


def topic_record(topic: Topic, placements: dict[int, Placement]) -> TopicRecord:
    """The topic with other placements for some of its partitions."""
    assignment, adding, removing = list(topic.assignment), dict(topic.adding), dict(topic.removing)
    for index, placement in placements.items():
        assignment[index] = placement.replicas
        for moves, brokers in ((adding, placement.adding), (removing, placement.removing)):
            moves.pop(index, None)
            if brokers:
                moves[index] = brokers
    return TopicRecord(topic.name, topic.topic_id, tuple(assignment), adding, removing)
