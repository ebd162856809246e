"""What is decided about a micro-batch that was written in transactions, and what follows from it.

Theory of operation. Tasks write in transactions that they leave prepared. The driver then decides the batch: it
writes down which transactions make it up, in a topic, and after that commits them. From the moment on at which
the decision is written the batch is in the output, whoever crashes. A driver that comes back and has the batch
run again finds the decision, commits what it names (again, perhaps) and aborts what the tasks have written this
time. If there is no decision, none of the earlier transactions was committed, and it decides for those of this time.

Only one worker process uses a transactional id, in one run of a query, so no late attempt of a task can end a
transaction that was decided. A transactional id of the sink and a record of the query's runs (`claim`) determine which
worker may decide, so a driver that was thought dead cannot decide any more.

A transaction that no decision names stays open until it is aborted, since prepared transactions have no time-out. So
the first commit of each run, and each one after an attempt that failed, searches for such remains. Spark does not
report every attempt: of two that run at the same time it kills the slower one, it runs stages again, and executors that
it gave up go on. So there is also a search from time to time. Remains are listed in the claim before they are aborted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from runnel.base.limits import SPARK_DECISION_BYTES_MAX
from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.decision_record import decode_record, encode_record, read_transactions
from runnel.spark.error import WriteError


@dataclass(frozen=True, slots=True)
class Decision:
    """The transactions that make up the newest batch of a sink, and the run in which they were written."""

    batch_id: int
    run_id: str
    transactions: tuple[PreparedTransaction, ...]

    def encode(self) -> bytes:
        """The value of the record; the sink's name is its key."""
        return encode_record(batch=self.batch_id, run=self.run_id, transactions=self.transactions)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The decision in the value of a record; raises `UnreadableRecord`."""
        return decode_record(
            value,
            "decision",
            lambda fields: cls(int(fields["batch"]), str(fields["run"]), read_transactions(fields["transactions"])),
        )


def check_size(decision: Decision, sink: str) -> None:
    """Raise `WriteError` if a decision names too many transactions for one record."""
    size_bytes = len(decision.encode())
    if size_bytes > SPARK_DECISION_BYTES_MAX:
        raise WriteError(
            f"batch {decision.batch_id} of {sink} was written by {len(decision.transactions)} tasks, and the decision "
            f"that names their transactions would take {size_bytes} bytes of the {SPARK_DECISION_BYTES_MAX} that it "
            "may have. Write from fewer tasks: call coalesce on what is written"
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """What the tasks of a batch have prepared.

    `had_failures` says that not every first attempt succeeded, `is_complete` that some attempt of every task did.
    """

    sink: str
    run_id: str
    batch_id: int
    transactions: tuple[PreparedTransaction, ...]
    had_failures: bool = False
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What a driver does about a batch, in this order: write the decision, commit, abort."""

    decision: Decision | None
    commit: tuple[PreparedTransaction, ...]
    abort: tuple[PreparedTransaction, ...]


def plan_commit(found: Decision | None, offer: Offer) -> Plan:
    """What to do about a batch that has been written, given the newest decision for its sink."""
    if found is not None and (found.batch_id, found.run_id) == (offer.batch_id, offer.run_id) and offer.transactions:
        # A batch that is run again is so in another run. This one would be dropped, and nobody would know.
        raise WriteError(
            f"batch {offer.batch_id} was written to this topic already: write to a topic once in each micro-batch"
        )
    if found is None or found.batch_id < offer.batch_id:
        decision = Decision(offer.batch_id, offer.run_id, offer.transactions) if offer.transactions else None
        return Plan(decision, offer.transactions, ())
    abort = _without(offer.transactions, found.transactions)
    if found.batch_id > offer.batch_id:
        return Plan(None, (), abort)  # the user has restored an older checkpoint
    # Said again in the name of this run, so that a second write in the same batch is told from one that is run again.
    decision = Decision(found.batch_id, offer.run_id, found.transactions) if offer.transactions else None
    return Plan(decision, found.transactions, abort)


def _without(
    transactions: Sequence[PreparedTransaction], decided: Sequence[PreparedTransaction]
) -> tuple[PreparedTransaction, ...]:
    kept = set(decided)
    return tuple(transaction for transaction in transactions if transaction not in kept)
