"""What a transaction machine decides: records of `__transaction_state`, replies, timers, and ends to carry out.

The markers of an end are asked of the machine once the records of its decision are replayed. They are sent when these,
and all before them, are committed: a decision that could still be lost must not be seen in any partition. They are sent
again until the coordinator has heard of each partition that its marker is written, or that the partition is gone; when
another broker coordinates, that one goes on.
"""

from dataclasses import dataclass, field
from enum import Enum

from runnel.machines import decision
from runnel.machines.transaction.record import TransactionRecord
from runnel.machines.transaction.transaction import TopicPartition


@dataclass(frozen=True, slots=True)
class EndMarkers:
    """How a transaction ended, for all partitions that have not been told yet."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_version: int  # from 2 on, the epoch is one that no record of the transaction has
    is_commit: bool
    partitions: frozenset[TopicPartition]
    serial: int  # of this end in the life of its coordinator


class TransactionEvent(Enum):
    """What a decision means to those who count."""

    BEGUN = "begun"
    COMMITTED = "committed"
    ABORTED = "aborted"  # by its producer
    TIMED_OUT = "timed out"
    REPLACED = "replaced"  # aborted, because another producer has come
    FENCED = "fenced"  # a request is refused, because it is not from the newest producer


@dataclass(slots=True)
class TransactionDecision(decision.Decision[TransactionRecord]):
    """What is to be done for transactions; `machines.decision` says in which order, the markers come last."""

    ending: list[str] = field(default_factory=list)  # the transactional ids whose markers are to be sent
    event: TransactionEvent | None = None
