"""The states of a transactional id, and the table of their transitions.

Theory of operation. A transactional id is EMPTY when a producer has got its identity, ONGOING from the first added
partition on, and decided when PREPARE_COMMIT or PREPARE_ABORT is in the log: from then on only a disk failure can keep
the decision from being carried out. Markers go to all of its partitions. When each has one, the id is COMPLETE_COMMIT
or COMPLETE_ABORT, until the next transaction begins.

The coordinator aborts a transaction itself after its timeout or when another producer takes over, and does so with a
new epoch. Kafka passes through PREPARE_EPOCH_FENCE in memory for that; here both are one record. Kafka also marks an id
that is about to be removed as DEAD; here it is removed with its tombstone. Neither state is ever in a log.
"""

from enum import IntEnum


class TransactionState(IntEnum):
    """Kafka's states, with their numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """Kafka's name of the state on the wire, such as PrepareCommit."""
        return self.name.title().replace("_", "")


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD

STORED_STATES = frozenset({EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT})
"""The states that a record may have."""

PREPARED = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""Decided, and not yet completed. KIP-939 also calls ONGOING prepared, once its producer has reported that to an
external coordinator; the transaction coordinator does not know that."""

COMPLETE = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
"""Completed, with all markers written."""

IDLE = frozenset({EMPTY}) | COMPLETE
"""No transaction is open; the id may begin one, get a new producer, or be removed."""

TRANSITIONS: dict[TransactionState, dict[TransactionState, str]] = {
    EMPTY: {
        EMPTY: "InitProducerId: another producer, or the same one again",
        ONGOING: "the first partition is added",
        PREPARE_ABORT: "EndTxn of version 5 aborts what the producer cannot know to be empty",
        DEAD: "nothing was heard for transactional.id.expiration.ms",
    },
    ONGOING: {
        ONGOING: "another partition is added, or InitProducerId keeps what is prepared (KIP-939)",
        PREPARE_COMMIT: "EndTxn commits",
        PREPARE_ABORT: "EndTxn aborts, the time is over, or another producer comes",
    },
    PREPARE_COMMIT: {COMPLETE_COMMIT: "every partition has its marker"},
    PREPARE_ABORT: {COMPLETE_ABORT: "every partition has its marker"},
    COMPLETE_COMMIT: {
        EMPTY: "InitProducerId",
        ONGOING: "the next transaction begins",
        PREPARE_ABORT: "EndTxn of version 5 aborts what the producer cannot know to be empty",
        DEAD: "nothing was heard for transactional.id.expiration.ms",
    },
    COMPLETE_ABORT: {
        EMPTY: "InitProducerId",
        ONGOING: "the next transaction begins",
        PREPARE_ABORT: "EndTxn of version 5 aborts what the producer cannot know to be empty",
        DEAD: "nothing was heard for transactional.id.expiration.ms",
    },
}
"""The possible transitions from each state, with their reasons."""


def may_follow(before: TransactionState, after: TransactionState) -> bool:
    """Return whether the table has this transition."""
    return after in TRANSITIONS.get(before, {})
