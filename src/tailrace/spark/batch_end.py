"""The end of a micro-batch that was written in transactions, by the rules of `decision`."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from tailrace.client.transaction.state import PreparedTransaction
from tailrace.spark.claimed_desk import Standing
from tailrace.spark.decision import Decision, Offer, Plan, check_size, plan_commit
from tailrace.spark.error import RetriableWriteError, WriteError

log = logging.getLogger(__name__)


class Desk(Protocol):
    """The operations by which a driver's worker decides for its sink. Each may be repeated, also by another worker."""

    def take(self, run_id: str) -> Standing:
        """Claim the sink, so that other workers and earlier runs cannot decide."""
        ...

    def has_passed(self, run_id: str, batch_id: int) -> bool:
        """Return whether this run has claimed the sink before, and the last decision is about an earlier batch.

        Then earlier runs have left nothing open, and have not written this batch.
        """
        ...

    def decide(self, decision: Decision) -> None:
        """Write a decision durably; raises if another worker has claimed the sink since."""
        ...

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        """End prepared transactions. Idempotent."""
        ...

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """Return the transactions that have not ended; the id of an ended one may be in use again."""
        ...

    def is_search_due(self) -> bool:
        """Return whether the last search for remains was long ago."""
        ...

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """List in the claim what is aborted next, and return it; raises if another worker has claimed the sink."""
        ...

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
        """Return the open transactions of the sink's tasks, except decided ones and those with these ids."""
        ...


def commit_batch(desk: Desk, offer: Offer) -> None:
    """Make a batch visible in the output exactly once."""
    is_empty = not offer.transactions and not offer.had_failures
    if is_empty and desk.has_passed(offer.run_id, offer.batch_id) and not desk.is_search_due():
        return
    try:
        standing = desk.take(offer.run_id)
        found = standing.decision
        plan = _plan(desk, found, offer)
        _check_open(desk, offer, standing)
        if plan.decision is not None:
            check_size(plan.decision, offer.sink)
    except Exception:
        _abort_undecided(desk, offer)
        raise
    remains: Sequence[PreparedTransaction] = ()
    if standing.is_first or offer.had_failures or desk.is_search_due():
        remains = _find_remains(desk, found, [offered.transactional_id for offered in offer.transactions])
    if plan.decision is not None:
        desk.decide(plan.decision)
    if found is not None and found.batch_id >= offer.batch_id:
        log.warning("batch %d of %s was already written", offer.batch_id, offer.sink)
    desk.end(plan.commit, commit=True)
    desk.end((*plan.abort, *remains), commit=False)
    if remains:
        log.warning("%s had left open %d transactions, which are now aborted", offer.sink, len(remains))


def _plan(desk: Desk, found: Decision | None, offer: Offer) -> Plan:
    """Return the steps for a batch. If it is refused, or older, what was decided before is committed nevertheless.

    A driver may have crashed before it committed what it had decided. Prepared transactions have no timeout, so readers
    of committed records would wait until the query runs again with the right checkpoint.
    """
    try:
        plan = plan_commit(found, offer)
    except WriteError:
        _commit_open(desk, found)
        raise
    if found is not None and found.batch_id > offer.batch_id:
        _commit_open(desk, found)
    return plan


def _commit_open(desk: Desk, decided: Decision | None) -> None:
    if decided is not None:
        desk.end(desk.find_open(decided.transactions), commit=True)


def _check_open(desk: Desk, offer: Offer, standing: Standing) -> None:
    """Raise `RetriableWriteError` if an earlier run has aborted transactions of this one, or is about to."""
    offered = set(offer.transactions)
    lost = offered & set(standing.listed)
    if (
        standing.is_first and offered
    ):  # earlier runs do not know transactions that began after the first claim of this run
        lost |= offered - set(desk.find_open(offer.transactions))
    if lost:
        raise RetriableWriteError(
            f"batch {offer.batch_id} of {offer.sink} must be written again: an earlier run of the query, which was "
            f"still alive, aborted {len(lost)} of its {len(offered)} transactions"
        )


def _find_remains(desk: Desk, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
    """Return the remains that may be aborted, because a run that claims the sink later finds them listed."""
    return desk.list_remains(desk.find_remains(decided, names))


def _abort_undecided(desk: Desk, offer: Offer) -> None:
    """Abort transactions that were offered and not decided; the next search finds those that cannot be reached now."""
    try:
        desk.end(offer.transactions, commit=False)
    except Exception as error:
        log.info(
            "%d transactions of %s stay open until the next search: %s", len(offer.transactions), offer.sink, error
        )


def settle(desk: Desk, run_id: str) -> None:
    """End the open transactions of a sink: commit the decided ones, and abort the others."""
    found = desk.take(run_id).decision
    _commit_open(desk, found)
    while remains := _find_remains(desk, None):
        desk.end(remains, commit=False)


def abort_batch(desk: Desk, offer: Offer) -> None:
    """Abort the prepared transactions of a batch, if the batch cannot have been decided.

    Spark calls this when a task failed, before it calls `commit`; or when `commit` failed, and then another worker may
    still decide. The next run, or the next search, finds the transactions that such a worker leaves open.
    """
    if not offer.is_complete:
        desk.end(offer.transactions, commit=False)
