"""The decision about a micro-batch that was written in transactions, and its consequences.

Theory of operation. Tasks write in transactions that they leave prepared. The driver then decides the batch: it
writes the transactions of the batch to a topic, and then commits them. When the decision is written, the batch is
in the output, whatever crashes afterwards. A restarted driver that runs the batch again finds the decision, commits
the transactions that it names (possibly again), and aborts those that the tasks have written this time. Without a
decision no earlier transaction was committed, and the driver decides for the new ones.

A batch is known by its number, and by a fingerprint of where it ends in its sources (`connector.batch_plan`): with an
older copy of the checkpoint, Spark plans another batch of the same number.

Only one worker process uses a transactional id, in one run of a query, so no late attempt of a task can end a
transaction that was decided. A transactional id of the sink and a record of the query's runs (`claim`) determine which
worker may decide, so a driver that was thought dead cannot decide any more.

A transaction that no decision names stays open until it is aborted, since prepared transactions have no timeout. So
the first commit of each run, and each one after an attempt that failed, searches for such remains. Spark does not
report every attempt: of two that run at the same time it kills the slower one, it runs stages again, and executors that
it gave up go on. So there is also a search from time to time. Remains are listed in the claim before they are aborted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tailrace.base.limits import SPARK_DECISION_BYTES_MAX
from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.connector.batch_plan import is_other
from tailrace.spark.decision_record import decode_record, encode_record, read_transactions
from tailrace.spark.error import WriteError


@dataclass(frozen=True, slots=True)
class Decision:
    """The transactions that make up the newest batch of a sink, and the run in which they were written."""

    batch_id: int
    run_id: str
    transactions: tuple[PreparedTransaction, ...]
    plan: str | None = None
    """The fingerprint of the batch; decisions of earlier versions have none."""

    def encode(self) -> bytes:
        """Return the value of the decision's record; the key is the sink's name."""
        plan = {} if self.plan is None else {"plan": self.plan}
        return encode_record(batch=self.batch_id, run=self.run_id, transactions=self.transactions, **plan)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Decode a decision from the value of a record; raises `UnreadableRecord`."""
        return decode_record(
            value,
            "decision",
            lambda fields: cls(
                int(fields["batch"]), str(fields["run"]), read_transactions(fields["transactions"]), fields.get("plan")
            ),
        )


def check_size(decision: Decision, sink: str) -> None:
    """Raise `WriteError` if a decision names too many transactions for one record."""
    size_bytes = len(decision.encode())
    if size_bytes > SPARK_DECISION_BYTES_MAX:
        raise WriteError(
            f"batch {decision.batch_id} of {sink} was written by {len(decision.transactions)} tasks, and the decision "
            f"that names their transactions would take {size_bytes} bytes; the limit is {SPARK_DECISION_BYTES_MAX}. "
            "Write from fewer tasks: call coalesce on the rows"
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """The prepared transactions of a batch.

    `had_failures` means that a first attempt failed, `is_complete` that every task succeeded in some attempt.
    """

    sink: str
    run_id: str
    batch_id: int
    transactions: tuple[PreparedTransaction, ...]
    had_failures: bool = False
    is_complete: bool = True
    plan: str | None = None
    """The fingerprint of the batch, if its checkpoint is in a folder of this machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a driver for a batch, in this order: write the decision, commit, abort."""

    decision: Decision | None
    commit: tuple[PreparedTransaction, ...]
    abort: tuple[PreparedTransaction, ...]


def plan_commit(found: Decision | None, offer: Offer) -> Plan:
    """Decide about a written batch, given the newest decision of its sink.

    Spark repeats only the last batch, as it was planned. If there is a decision for a later one, or for another one of
    the same number, an older copy of the checkpoint was put back, or the disk has lost its newest files; raises
    `WriteError` then.
    """
    if found is not None and (found.batch_id, found.run_id) == (offer.batch_id, offer.run_id) and offer.transactions:
        # A batch is repeated only in another run, so this is a second write, which would be dropped silently.
        raise WriteError(
            f"batch {offer.batch_id} was already written to this topic: write to a topic once in each micro-batch"
        )
    _check_is_newest(found, offer)
    if found is None or found.batch_id < offer.batch_id:
        decision = Decision(offer.batch_id, offer.run_id, offer.transactions, offer.plan)
        return Plan(decision if offer.transactions else None, offer.transactions, ())
    abort = _without(offer.transactions, found.transactions)
    if found.batch_id > offer.batch_id:
        return Plan(None, (), abort)  # without rows, nothing is left out
    # Written again for this run, to tell a second write in the batch from a repeated batch.
    decision = Decision(found.batch_id, offer.run_id, found.transactions, offer.plan or found.plan)
    return Plan(decision if offer.transactions else None, found.transactions, abort)


def _check_is_newest(found: Decision | None, offer: Offer) -> None:
    """Raise `WriteError` if the topic has a later batch with rows than this one, or another one of its number."""
    if found is None:
        return
    if found.batch_id > offer.batch_id and offer.transactions:
        there = f"it goes on with batch {offer.batch_id} of {offer.sink}, and batch {found.batch_id} is in the topic"
        lost = f"Batches {offer.batch_id} to {found.batch_id} would be left out, although they have other rows"
    elif is_other(found.plan, offer.plan):
        there = (
            f"it has planned batch {offer.batch_id} of {offer.sink} anew, and the topic has another batch "
            f"{found.batch_id}"
        )
        lost = "This batch would be left out, although it has other rows"
    else:
        return
    raise WriteError(
        f"the checkpoint of the query is older than what it has written: {there}. {lost}: put the newer checkpoint "
        "back, or start with a new one, which writes all rows again"
    )


def _without(
    transactions: Sequence[PreparedTransaction], decided: Sequence[PreparedTransaction]
) -> tuple[PreparedTransaction, ...]:
    kept = set(decided)
    return tuple(transaction for transaction in transactions if transaction not in kept)
