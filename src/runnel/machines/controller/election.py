"""Who leads a partition, and who may lead it when its leader is gone.

Whoever is in the ISR has everything that was committed and may lead. While the ISR is smaller than
min.insync.replicas nothing is committed, so those who left it since then have it all as well: they are the eligible
leader replicas, the ELR (KIP-966). It ends when the ISR is large enough again. A member that came back without a
clean stop may have lost its tail, so it leaves both sets before anybody is elected.

When both sets are empty nobody is certain to have everything. The last leader is the best guess and is waited for; a
partition that allows unclean election takes the first replica that is there instead, and may lose records.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from runnel.machines.controller.record import NO_BROKER, PartitionRecord

IsActive = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a topic's configuration says about its leaders."""

    min_insync_replicas: int = 1
    is_unclean_allowed: bool = False


RuleOf = Callable[[str], Rule]


class Election(Enum):
    """Why a leader is looked for, by Kafka's number where clients can ask for it."""

    PREFERRED = 0  # the first replica shall lead
    UNCLEAN = 1  # somebody shall lead, whatever it costs
    ONLINE = 2  # the leader stays while it can


def with_isr(
    state: PartitionRecord,
    isr: Sequence[int],
    replicas: Sequence[int],
    min_insync_replicas: int,
    unclean: Collection[int] = (),
) -> PartitionRecord:
    """The state with another ISR, and the ELR that follows from it."""
    # A topic may ask for more than it has replicas.
    if len(isr) >= min(min_insync_replicas, len(replicas)):
        return replace(state, isr=tuple(isr), elr=())
    eligible = {*state.isr, *state.elr} - {*isr, *unclean}
    elr = tuple(broker for broker in replicas if broker in eligible)
    return replace(state, isr=tuple(isr), elr=elr)


def elect(
    state: PartitionRecord, replicas: Sequence[int], is_active: IsActive, election: Election, leader_before: int
) -> PartitionRecord:
    """The state with the leader that it should have; its epoch is still that of `leader_before`."""
    if (leader := _clean_leader(state, replicas, is_active, election, leader_before)) != NO_BROKER:
        if leader in state.isr:
            return replace(state, leader=leader, last_known_elr=())
        elr = tuple(broker for broker in state.elr if broker != leader)
        return replace(state, leader=leader, isr=(leader,), elr=elr, last_known_elr=())
    last_leader = state.last_known_elr or ((leader_before,) if leader_before != NO_BROKER else ())
    candidates = [] if state.isr or state.elr else [broker for broker in last_leader if broker in replicas]
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
