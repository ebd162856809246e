"""How a driver ends a micro-batch that was written in transactions; `decision` says by which rules."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.claimed_desk import Standing
from runnel.spark.decision import Decision, Offer, check_size, plan_commit
from runnel.spark.error import RetriableWriteError

log = logging.getLogger(__name__)


class Desk(Protocol):
    """Where a worker of the driver decides for its sink. Each call may be repeated, here or by another worker."""

    def take(self, run_id: str) -> Standing:
        """Keep other workers and earlier runs from deciding."""
        ...

    def has_taken(self, run_id: str) -> bool:
        """Whether this desk was taken in this run before, so that nothing of earlier runs waits for its end."""
        ...

    def decide(self, decision: Decision) -> None:
        """Write a decision down for good; raises if another worker has taken the desk since."""
        ...

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        """End prepared transactions; those that were ended this way before stay so."""
        ...

    def find_open(self, transactions: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """Those that have not ended; the id of one that has may be in another transaction by now."""
        ...

    def is_search_due(self) -> bool:
        """Whether nobody has looked for remains for a while."""
        ...

    def list_remains(self, remains: Sequence[PreparedTransaction]) -> Sequence[PreparedTransaction]:
        """Note in the claim what is aborted next, and return it; raises if another worker has taken the desk since."""
        ...

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
        """What tasks of the sink have open beside what was decided and what has one of these ids."""
        ...


def commit_batch(desk: Desk, offer: Offer) -> None:
    """Have a batch in the output, once and for all."""
    is_empty = not offer.transactions and not offer.had_failures
    if is_empty and desk.has_taken(offer.run_id) and not desk.is_search_due():
        return
    try:
        standing = desk.take(offer.run_id)
        found = standing.decision
        plan = plan_commit(found, offer)
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
        log.warning("batch %d of %s had been written before", offer.batch_id, offer.sink)
    desk.end(plan.commit, commit=True)
    desk.end((*plan.abort, *remains), commit=False)
    if remains:
        log.warning("%s had left %d transactions open, which were aborted", offer.sink, len(remains))


def _check_open(desk: Desk, offer: Offer, standing: Standing) -> None:
    """Raise `RetriableWriteError` if an earlier run has aborted transactions of this one, or is about to."""
    offered = set(offer.transactions)
    lost = offered & set(standing.listed)
    if standing.is_first and offered:  # what began after the first claim of a run is not known to earlier runs
        lost |= offered - set(desk.find_open(offer.transactions))
    if lost:
        raise RetriableWriteError(
            f"batch {offer.batch_id} of {offer.sink} has to be written again: an earlier run of the query, which was "
            f"still alive, has aborted {len(lost)} of its {len(offered)} transactions"
        )


def _find_remains(desk: Desk, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
    """Remains that may be aborted now, because a run that claims the sink from now on knows of it."""
    return desk.list_remains(desk.find_remains(decided, names))


def _abort_undecided(desk: Desk, offer: Offer) -> None:
    """Abort what was offered and not decided; what cannot be reached now is found by the next search."""
    try:
        desk.end(offer.transactions, commit=False)
    except Exception as error:
        log.info("%d transactions of %s stay open for now: %s", len(offer.transactions), offer.sink, error)


def settle(desk: Desk, run_id: str) -> None:
    """End what a sink has open: what was decided counts, and the rest does not."""
    found = desk.take(run_id).decision
    if found is not None:
        desk.end(desk.find_open(found.transactions), commit=True)
    while remains := _find_remains(desk, None):
        desk.end(remains, commit=False)


def abort_batch(desk: Desk, offer: Offer) -> None:
    """Abort what the tasks of a batch have prepared, if the batch cannot have been decided.

    Spark calls this when a task failed, and then it has not called `commit`; or when `commit` failed, and then another
    worker may still be about to decide. What that worker leaves open is found by the next run, or the next search.
    """
    if not offer.is_complete:
        desk.end(offer.transactions, commit=False)
