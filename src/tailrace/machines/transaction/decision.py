"""The decision of the transaction machine: records of `__transaction_state`, replies, timers, and ends to carry out.

The shell fetches the markers of an end after the records of its decision were replayed. It sends them when these and
all earlier records are replicated: a decision that could still be lost must not be visible in any partition. It resends
them until the coordinator knows that each partition has its marker or no longer exists. When another broker becomes the
coordinator, that broker continues.
"""

from dataclasses import dataclass, field
from enum import Enum

from tailrace.machines import decision
from tailrace.machines.transaction.record import TransactionRecord
from tailrace.machines.transaction.transaction import TopicPartition


@dataclass(frozen=True, slots=True)
class EndMarkers:
    """The outcome of a transaction, for all partitions that have no marker yet."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int  # from 2 on, no record of the transaction has this epoch
    is_commit: bool
    partitions: frozenset[TopicPartition]
    serial: int  # the number of this end in its coordinator


class TransactionEvent(Enum):
    """The meaning of a decision for metrics."""

    BEGUN = "begun"
    COMMITTED = "committed"
    ABORTED = "aborted"  # by its producer
    TIMED_OUT = "timed out"
    REPLACED = "replaced"  # aborted, because another producer took over
    FENCED = "fenced"  # a request of a fenced producer was rejected


@dataclass(slots=True)
class TransactionDecision(decision.Decision[TransactionRecord]):
    """A decision about transactions; `machines.decision` describes the order, and the markers come last."""

    ending: list[str] = field(default_factory=list)  # transactional ids whose markers are sent
    event: TransactionEvent | None = None
