"""The phases of a producer's transaction, and all steps between them in one table.

A transaction begins, takes records, and is committed or aborted; with two-phase commit it may be prepared in
between. While it is ending its phase stays, so that a call that timed out can be repeated and requests the
same end. There are two kinds of errors. After a failure the transaction can only be aborted, and the producer
can begin the next. After a break the producer is useless: another one has taken the transactional id, or the
outcome of the transaction is unknown.

Nothing here waits or sends; `transaction.Transactions` does, and reports the outcome.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from tailrace.client.error import TransactionStateError
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.errors import ErrorCode


class Phase(Enum):
    """The phase of a producer; the values are for error messages."""

    NEW = "not initialised"
    INITIALIZING = "being initialised"
    READY = "without an open transaction"
    OPEN = "in a transaction"
    PREPARING = "preparing a transaction"
    PREPARED = "holding a prepared transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FAILED = "in a transaction that failed and must be aborted"
    BROKEN = "of no further use"


class Step(Enum):
    """The calls of the user, and their outcomes."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets"
    PREPARE = "prepare_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"
    DONE = "(done)"
    KEEP = "(a prepared transaction was found)"
    FAIL = "(failed)"
    BREAK = "(broke)"


STEPS: dict[Phase, dict[Step, Phase]] = {
    Phase.NEW: {Step.INIT: Phase.INITIALIZING},
    Phase.INITIALIZING: {
        Step.INIT: Phase.INITIALIZING,
        Step.DONE: Phase.READY,
        Step.KEEP: Phase.PREPARED,
        Step.FAIL: Phase.NEW,
    },
    Phase.READY: {Step.BEGIN: Phase.OPEN},
    Phase.OPEN: {
        Step.SEND: Phase.OPEN,
        Step.SEND_OFFSETS: Phase.OPEN,
        Step.PREPARE: Phase.PREPARING,
        Step.COMMIT: Phase.COMMITTING,
        Step.ABORT: Phase.ABORTING,
        Step.FAIL: Phase.FAILED,
    },
    Phase.PREPARING: {
        Step.PREPARE: Phase.PREPARING,
        Step.ABORT: Phase.ABORTING,
        Step.DONE: Phase.PREPARED,
        Step.FAIL: Phase.FAILED,
    },
    Phase.PREPARED: {Step.COMMIT: Phase.COMMITTING, Step.ABORT: Phase.ABORTING, Step.FAIL: Phase.PREPARED},
    Phase.COMMITTING: {Step.COMMIT: Phase.COMMITTING, Step.DONE: Phase.READY, Step.FAIL: Phase.FAILED},
    Phase.ABORTING: {Step.ABORT: Phase.ABORTING, Step.DONE: Phase.READY, Step.FAIL: Phase.ABORTING},
    Phase.FAILED: {Step.ABORT: Phase.ABORTING, Step.FAIL: Phase.FAILED},
    Phase.BROKEN: {Step.FAIL: Phase.BROKEN},
}
"""Where each step leads; what is not here is refused. Everything may break."""

SENDING = frozenset({Phase.OPEN, Phase.PREPARING, Phase.COMMITTING})
"""Phases in which batches are sent."""

_ADVICE = {
    Phase.NEW: "begin one first: `with producer.transaction():`",
    Phase.READY: "begin one first: `with producer.transaction():`",
    Phase.OPEN: "commit or abort it first",
    Phase.PREPARED: "commit or abort it first",
    Phase.PREPARING: "call prepare_transaction again, or abort it",
    Phase.COMMITTING: "call commit_transaction again until it returns; its outcome is unknown until then",
    Phase.ABORTING: "call abort_transaction again until it returns",
    Phase.FAILED: "abort it, and try again",
    Phase.INITIALIZING: "call init_transactions again until it returns",
    Phase.BROKEN: "close it and create a new one",
}


class PreparedTransaction(NamedTuple):
    """A prepared transaction; any client that has this can commit or abort it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionState:
    """The phase of one producer, and the partitions of its transaction."""

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.error: Exception | None = None
        self.identity: Identity | None = None
        self.is_v2 = False
        """Whether partitions join by being written to and each end has its own epoch (KIP-890)."""
        self.is_started = False
        """Whether the coordinator may know of the transaction, so that it has to be told of its end."""
        self.is_confirmed = False
        """Whether the coordinator has said that something was added to it."""
        self.needs_epoch = False
        """Whether numbers may have gaps, so that the next transaction needs an epoch of its own."""
        self.may_be_committed = False
        """Whether a request to commit was sent and had no definite answer."""
        self.added: set[TopicPartition] = set()
        self.wanted: set[TopicPartition] = set()

    def take(self, step: Step) -> None:
        """Take a step; raises the transaction's error, or `TransactionStateError` if the step does not fit."""
        if step is Step.BREAK:
            self.phase = Phase.BROKEN
            return
        after = STEPS[self.phase].get(step)
        if after is None:
            raise self.refusal(step)
        self.phase = after

    def refusal(self, step: Step) -> Exception:
        """Return the error that forbids a step now: an earlier one, or that the call does not fit the phase."""
        if self.phase in (Phase.FAILED, Phase.BROKEN) and self.error is not None:
            return self.error
        return TransactionStateError(
            f"{step.value} is not possible while the producer is {self.phase.value}: {_ADVICE[self.phase]}"
        )

    def fail(self, error: Exception) -> None:
        """Note an error after which the transaction can only be aborted; the first one is kept."""
        before = self.phase
        self.take(Step.FAIL)
        self.needs_epoch = True
        if self.phase is Phase.FAILED and before is not Phase.FAILED:
            self.error = error

    def break_down(self, error: Exception) -> None:
        """Note an error after which the producer is useless; the first one is kept."""
        if self.phase is not Phase.BROKEN:
            self.take(Step.BREAK)
            self.error = error

    def admits(self, target: TopicPartition) -> bool:
        """Return whether a batch may be sent to a partition; notes a partition that must be added first."""
        if self.phase not in SENDING:
            return False
        if self.is_v2:
            self.is_started = True
            self.added.add(target)
        elif target not in self.added:
            self.wanted.add(target)
            return False
        return True

    def confirm(self, targets: Iterable[TopicPartition]) -> None:
        """Note that the coordinator has added partitions."""
        self.is_confirmed = True
        self.added.update(targets)
        self.wanted.difference_update(targets)

    def end(self, identity: Identity | None) -> None:
        """Note the end of the transaction, and the next identity if the coordinator sent one."""
        self.take(Step.DONE)
        self.forget(identity)

    def forget(self, identity: Identity | None) -> None:
        """Start without partitions, with this identity if there is one."""
        if identity is not None:
            self.identity = identity
            self.needs_epoch = False
        self.error = None
        self.is_started = self.is_confirmed = self.may_be_committed = False
        self.added.clear()
        self.wanted.clear()


class Verdict(Enum):
    """The meaning of an answer of the coordinator for the transaction."""

    AGAIN = "ask again"
    ABORT = "abort it"
    FENCED = "another producer has the transactional id"
    BREAK = "the producer is useless"


_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_ABORTABLE = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,  # it has timed out and is aborted; an abort request returns the next epoch
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
)


def judge(code: ErrorCode, *, is_abort: bool = False) -> Verdict:
    """Return the meaning of an error of a coordinator. If an abort fails the producer is useless."""
    if code.retriable:
        return Verdict.AGAIN
    if code in _FENCED:
        return Verdict.FENCED
    return Verdict.ABORT if code in _ABORTABLE and not is_abort else Verdict.BREAK


def judge_batch(code: ErrorCode) -> Verdict:
    """Return the meaning of a rejected batch. Only the coordinator knows whether the producer is fenced."""
    if code is ErrorCode.INVALID_PRODUCER_EPOCH:
        return Verdict.ABORT
    if code in _FENCED:
        return Verdict.FENCED
    if code in (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return Verdict.BREAK
    return Verdict.ABORT
