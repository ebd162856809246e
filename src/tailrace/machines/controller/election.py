"""The election of a partition's leader.

Every replica in the ISR has all committed records and may lead. While the ISR is smaller than min.insync.replicas
nothing is committed, so replicas that left it in that time have all committed records as well: they are the eligible
leader replicas, the ELR (KIP-966). The ELR ends when the ISR is large enough again. A replica that came back without a
clean stop may have lost the end of its log, so it leaves both sets before a leader is elected.

When both sets are empty, no replica is certain to have all committed records. The last leader is the best guess, and
the partition waits for it. If the last leader resigned, because its disk failed, the last members of the sets are the
best guess. A partition that allows unclean election takes the first live replica instead, and may lose
records.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tailrace.base.sentinel import NO_BROKER
from tailrace.machines.controller.record import PartitionRecord

IsActive = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a topic's configuration says about its leaders."""

    min_insync_replicas: int = 1
    is_unclean_allowed: bool = False


RuleOf = Callable[[str], Rule]


class Election(Enum):
    """The kind of an election, with Kafka's number if clients can request it."""

    PREFERRED = 0  # the first replica becomes leader
    UNCLEAN = 1  # any live replica becomes leader, even if records are lost
    ONLINE = 2  # the leader stays if it can


def with_isr(
    state: PartitionRecord,
    isr: Sequence[int],
    replicas: Sequence[int],
    min_insync_replicas: int,
    unclean: Collection[int] = (),
) -> PartitionRecord:
    """Return the state with another ISR, and with the ELR that follows from it."""
    # min.insync.replicas may be larger than the number of replicas.
    if len(isr) >= min(min_insync_replicas, len(replicas)):
        return replace(state, isr=tuple(isr), elr=())
    eligible = {*state.isr, *state.elr} - {*isr, *unclean}
    elr = tuple(broker for broker in replicas if broker in eligible)
    return replace(state, isr=tuple(isr), elr=elr)


def elect(
    state: PartitionRecord,
    replicas: Sequence[int],
    is_active: IsActive,
    election: Election,
    before: PartitionRecord,
) -> PartitionRecord:
    """Return the state with its new leader; the leader epoch is still that of the state before."""
    leader_before = before.leader
    if (leader := _clean_leader(state, replicas, is_active, election, leader_before)) != NO_BROKER:
        if leader in state.isr:
            return replace(state, leader=leader, last_known_elr=())
        elr = tuple(broker for broker in state.elr if broker != leader)
        return replace(state, leader=leader, isr=(leader,), elr=elr, last_known_elr=())
    has_eligible = bool(state.isr or state.elr)
    last_leader = state.last_known_elr or ((leader_before,) if leader_before != NO_BROKER else ())
    if not last_leader and not has_eligible:
        last_leader = before.isr or before.elr
    candidates = [] if has_eligible else [broker for broker in last_leader if broker in replicas]
    if election is Election.UNCLEAN:
        candidates += replicas
    for broker in candidates:
        if is_active(broker):
            return replace(state, leader=broker, isr=(broker,), elr=(), last_known_elr=())
    return replace(state, leader=NO_BROKER, last_known_elr=last_leader)


def _clean_leader(
    state: PartitionRecord, replicas: Sequence[int], is_active: IsActive, election: Election, leader_before: int
) -> int:
    eligible = state.isr or state.elr
    preference = [replicas[0], leader_before] if election is Election.PREFERRED else [leader_before]
    for broker in [*preference, *replicas]:
        if broker in eligible and is_active(broker):
            return broker
    return NO_BROKER
