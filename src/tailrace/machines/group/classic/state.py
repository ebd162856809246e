"""The states of a classic group, and the table of transitions between them.

Theory of operation. The members of a classic group divide the partitions among themselves; the coordinator only
keeps them in step, one *generation* after another. In PREPARING_REBALANCE the coordinator waits for every member to
send JoinGroup. It then chooses the protocol that all members support and most prefer, starts the next generation and
sends the list of members to one of them, the leader. In COMPLETING_REBALANCE the members wait with SyncGroup until
the leader sends the assignments. The coordinator writes them to the log, and the group is STABLE until a member joins,
leaves or times out.

The log holds one record per generation: the members, their subscriptions and their assignments. A group that is
loaded from it is STABLE, or EMPTY if the record has no members. Everything else is soft state, which a restart loses:
the requests that wait for a reply, member ids that were handed out and not used yet (KIP-394), and timers.

A decision is made on a draft, a copy of the group. If the decision has no records, the draft replaces the group at
once, because nothing can fail. If it has records, the draft replaces the group when the records are replayed; if they
cannot be written, the draft is dropped and the group stays what it was. So there is nothing to undo.

DEAD means that a tombstone was written: the group is gone, or it uses the consumer protocol now. No group in memory
is DEAD; clients see it in the description of a group that does not exist.
"""

from enum import StrEnum


class ClassicState(StrEnum):
    """The states, under the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE
DEAD = ClassicState.DEAD

_UPGRADED = "a member of the consumer protocol joins, and the group is upgraded"

TRANSITIONS: dict[ClassicState, dict[ClassicState, str]] = {
    EMPTY: {
        PREPARING_REBALANCE: "the first member joins",
        DEAD: "DeleteGroups, the last offset expires, or a member of the consumer protocol joins",
    },
    PREPARING_REBALANCE: {
        COMPLETING_REBALANCE: "every member has joined, or the rebalance timeout has passed",
        EMPTY: "no member is left",
        DEAD: _UPGRADED,
    },
    COMPLETING_REBALANCE: {
        STABLE: "the assignments of the leader are written",
        PREPARING_REBALANCE: "a member joins, leaves or times out, or the assignments cannot be written",
        DEAD: _UPGRADED,
    },
    STABLE: {
        PREPARING_REBALANCE: "a member joins, leaves, times out or changes its subscription",
        DEAD: _UPGRADED,
    },
}
"""The states that may follow each state, and the reason for each transition."""


def may_follow(before: ClassicState, after: ClassicState) -> bool:
    """Return whether the table has this transition."""
    return after in TRANSITIONS.get(before, {})
