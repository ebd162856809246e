"""How a driver ends a micro-batch that was written in transactions; `decision` says by which rules."""

import logging
from collections.abc import Sequence
from typing import Protocol

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.decision import Decision, Offer, plan_abort, plan_commit

log = logging.getLogger(__name__)


class Desk(Protocol):
    """Where a driver decides for its query. Each call may be repeated, here or by another driver."""

    def take(self) -> Decision | None:
        """Keep every earlier driver of the query from deciding; the newest decision there is."""
        ...

    def decide(self, decision: Decision) -> None:
        """Write a decision down for good; raises if another driver has taken the desk since."""
        ...

    def end(self, transactions: Sequence[PreparedTransaction], *, commit: bool) -> None:
        """End prepared transactions; those that were ended this way before stay so."""
        ...

    def abort_remains(self, decided: Decision | None) -> int:
        """Abort what tasks of the query have open and nobody decided for; how many there were."""
        ...


def commit_batch(desk: Desk, offer: Offer) -> None:
    """Have a batch in the output, once and for all."""
    found = desk.take()
    plan = plan_commit(found, offer)
    if plan.decision is not None:
        desk.decide(plan.decision)
    elif found is not None and found.batch_id >= offer.batch_id:
        log.warning("batch %d of query %s had been written before", offer.batch_id, offer.query_id)
    desk.end(plan.commit, commit=True)
    desk.end(plan.abort, commit=False)
    if plan.is_search_due:
        count = desk.abort_remains(plan.decision or found)
        if count:
            log.warning("query %s had left %d transactions open, which are aborted", offer.query_id, count)


def abort_batch(desk: Desk, offer: Offer) -> None:
    """Take back what can be taken back of a batch that failed, perhaps in `commit_batch`."""
    desk.end(plan_abort(desk.take(), offer), commit=False)
