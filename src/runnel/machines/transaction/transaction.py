"""One transactional id as its last record tells of it; each change makes a new one."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from runnel.base.invariant import invariant
from runnel.machines.transaction.state import PREPARED, TransactionState, may_follow
from runnel.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TopicPartition = tuple[str, int]

PRODUCER_EPOCH_MAX = 0x7FFF
NO_START_MS = -1

TWO_PHASE_TIMEOUT_MS = 0x7FFF_FFFF
"""The time-out of a transaction that somebody else decides about, and that therefore has none (KIP-939)."""

CLIENT_VERSION_1 = 0
"""Clients that add partitions themselves and keep their epoch; Kafka writes 0 for them, never 1."""

CLIENT_VERSION_2 = 2
"""Clients of KIP-890: partitions are added when they are written to, and each end has its own epoch."""


class Identity(NamedTuple):
    """What a producer writes with."""

    producer_id: int
    producer_epoch: int

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left. No client gets the last one, so that it can always be fenced."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1


NO_IDENTITY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, its producer and its transaction, if there is one."""

    transactional_id: str
    producer_id: int  # markers are written with this id and this epoch
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    update_ms: int
    start_ms: int = NO_START_MS
    partitions: frozenset[TopicPartition] = frozenset()
    client_version: int = CLIENT_VERSION_1
    previous_producer_id: int = NO_PRODUCER_ID  # before the last change, whatever it changed
    next_producer_id: int = NO_PRODUCER_ID  # the producer has this id already, or will get it with the next end
    next_producer_epoch: int = NO_PRODUCER_EPOCH  # KIP-939; without it the next id begins at 0
    # The epoch from which the last one was got, by which a repeated InitProducerId is known. It is not in the log, and
    # Kafka loses it with its coordinator; for what has ended it can be worked out (see `record`).
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def identity(self) -> Identity:
        """What the newest producer has been given or, once it is decided, gets when the transaction is over."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return Identity(self.producer_id, self.producer_epoch)
        return Identity(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    @property
    def is_kept(self) -> bool:
        """Whether a later producer has taken over the open transaction, and may only end it (KIP-939)."""
        return self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def is_commit(self) -> bool:
        """How a transaction that is decided ends."""
        invariant(self.state in PREPARED, f"{self.transactional_id} is not decided")
        return self.state is TransactionState.PREPARE_COMMIT

    def become(self, state: TransactionState, now_ms: int, **changes: Any) -> Self:
        """The same id after a transition, if there is such a one."""
        invariant(may_follow(self.state, state), f"{self.transactional_id}: {state.name} after {self.state.name}")
        after = replace(self, state=state, update_ms=now_ms, previous_producer_id=self.producer_id, **changes)
        invariant(0 <= after.producer_epoch <= PRODUCER_EPOCH_MAX, f"epoch {after.producer_epoch}")
        return after

    def with_partitions(self, now_ms: int, partitions: Iterable[TopicPartition], client_version: int) -> Self:
        """The transaction with more partitions, or its beginning."""
        return self.become(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | frozenset(partitions),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Self:
        """A decided transaction whose markers are all written."""
        identity = self.identity
        return self.become(
            TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=frozenset(),
        )
