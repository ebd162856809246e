"""How a driver ends a micro-batch that was written in transactions; `decision` says by which rules."""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from runnel.client.transaction_state import PreparedTransaction
from runnel.spark.decision import Decision, Offer, plan_abort, plan_commit

log = logging.getLogger(__name__)


class Desk(Protocol):
    """Where a driver decides for its sink. Each call may be repeated, here or by another driver."""

    def take(self) -> Decision | None:
        """Keep every earlier driver of the sink from deciding; the newest decision there is."""
        ...

    def decide(self, decision: Decision) -> None:
        """Write a decision down for good; raises if another driver has taken the desk since."""
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

    def find_remains(self, decided: Decision | None, names: Iterable[str] = ()) -> Sequence[PreparedTransaction]:
        """What tasks of the sink have open beside what was decided and what has one of these ids."""
        ...


def commit_batch(desk: Desk, offer: Offer) -> None:
    """Have a batch in the output, once and for all."""
    found = desk.take()
    plan = plan_commit(found, offer)
    remains: Sequence[PreparedTransaction] = ()
    if plan.may_have_remains or desk.is_search_due():
        remains = desk.find_remains(found, [offered.transactional_id for offered in offer.transactions])
    # Who still can decide has not been succeeded, so none of the remains is one that a later driver may decide for.
    if (decision := plan.decision or (found if remains else None)) is not None:
        desk.decide(decision)
    if found is not None and found.batch_id >= offer.batch_id:
        log.warning("batch %d of %s had been written before", offer.batch_id, offer.sink)
    desk.end(plan.commit, commit=True)
    desk.end((*plan.abort, *remains), commit=False)
    if remains:
        log.warning("%s had left %d transactions open, which were aborted", offer.sink, len(remains))


def settle(desk: Desk) -> None:
    """End what a sink has open: what was decided counts, and the rest does not."""
    found = desk.take()
    if found is not None:
        desk.end(desk.find_open(found.transactions), commit=True)
    desk.end(desk.find_remains(None), commit=False)


def abort_batch(desk: Desk, offer: Offer) -> None:
    """Take back what can be taken back of a batch that failed, perhaps in `commit_batch`."""
    desk.end(plan_abort(desk.take(), offer), commit=False)
