"""The state of one transactional id, as an immutable value."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from tailrace.base.invariant import invariant
from tailrace.machines.transaction.state import PREPARED, TransactionState, may_follow
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TopicPartition = tuple[str, int]

PRODUCER_EPOCH_MAX = 0x7FFF
NO_START_MS = -1

TWO_PHASE_TIMEOUT_MS = 0x7FFF_FFFF
"""The timeout of a two-phase transaction, whose outcome an external coordinator decides; it never expires (KIP-939)."""

CLIENT_VERSION_1 = 0
"""Clients that add partitions themselves and keep their epoch; Kafka writes 0 for them, never 1."""

CLIENT_VERSION_2 = 2
"""Clients of KIP-890: partitions are added on the first write, and each end has its own epoch."""


class Identity(NamedTuple):
    """A producer id and epoch."""

    producer_id: int
    producer_epoch: int

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left. No client gets the last one, so that every client can be fenced."""
        return self.producer_epoch >= PRODUCER_EPOCH_MAX - 1


NO_IDENTITY = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, its producer and its transaction, if any."""

    transactional_id: str
    producer_id: int  # markers are written with this id and this epoch
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    update_ms: int
    start_ms: int = NO_START_MS
    partitions: frozenset[TopicPartition] = frozenset()
    client_version: int = CLIENT_VERSION_1
    previous_producer_id: int = NO_PRODUCER_ID  # before the last change of any kind
    next_producer_id: int = NO_PRODUCER_ID  # the producer has this id, or gets it with the next end
    next_producer_epoch: int = NO_PRODUCER_EPOCH  # KIP-939; without it the next id begins at 0
    # The epoch before the last one, by which a retried InitProducerId is recognised. It is not in the log, and Kafka
    # loses it with its coordinator; for ended transactions it can be computed (see `record`).
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def identity(self) -> Identity:
        """The identity of the newest producer or, after the decision, the one that it gets."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return Identity(self.producer_id, self.producer_epoch)
        return Identity(self.next_producer_id, max(self.next_producer_epoch, 0))

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TWO_PHASE_TIMEOUT_MS

    @property
    def is_kept(self) -> bool:
        """Whether a later producer has taken over the open transaction and may only end it (KIP-939)."""
        return self.state is TransactionState.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def is_commit(self) -> bool:
        """Whether a decided transaction is committed."""
        invariant(self.state in PREPARED, f"{self.transactional_id} is not decided")
        return self.state is TransactionState.PREPARE_COMMIT

    def become(self, state: TransactionState, now_ms: int, **changes: Any) -> Self:
        """Return the id after a transition, which must be in the table."""
        invariant(may_follow(self.state, state), f"{self.transactional_id}: {state.name} after {self.state.name}")
        after = replace(self, state=state, update_ms=now_ms, previous_producer_id=self.producer_id, **changes)
        invariant(0 <= after.producer_epoch <= PRODUCER_EPOCH_MAX, f"epoch {after.producer_epoch}")
        return after

    def with_partitions(self, now_ms: int, partitions: Iterable[TopicPartition], client_version: int) -> Self:
        """Return the transaction with more partitions, or a new transaction."""
        return self.become(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | frozenset(partitions),
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Self:
        """Return a decided transaction as complete, after all markers are written."""
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
