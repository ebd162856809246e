"""Who sees only what is committed sees nothing of a transaction that is not, or not yet.

Three names for what goes wrong, by what became of the transaction: an aborted read saw what surely never was
committed, an intermediate read saw what was not committed yet, and a precommitted read is one of the transaction's
own producer. A late end is guessed: an end of the transaction before it, of which nobody knew what became, ended this
one instead. It explains what is seen too early, and what is lost of a transaction that was committed.
"""

from collections.abc import Iterator

from runnel.sim.checkers.finding import Finding
from runnel.sim.checkers.missing import broken_transactions
from runnel.sim.checkers.order import PartitionOrder, partition_orders
from runnel.sim.checkers.transaction import Transaction, transactions
from runnel.sim.history import History, Operation


def find_dirty_reads(history: History) -> Iterator[Finding]:
    """The first sight of each transaction that was not committed."""
    for transaction, send, poll in _early_sights(history):
        name = early_name(transaction, poll)
        if name != "late-end":
            text = f"{poll.process} read {send.asked['value']} of {transaction.name}, {_state(transaction)}"
            yield Finding(name, send.asked["partition"], text, (send.begun, poll.begun))


def find_late_ends(history: History) -> Iterator[Finding]:
    """Transactions that the end of the one before them seems to have ended."""
    for transaction, send, poll in _early_sights(history):
        if early_name(transaction, poll) == "late-end":
            text = f"{poll.process} read {send.asked['value']} of {transaction.name}, {_state(transaction)}"
            yield _late_end(transaction, f"{text}, and the commit of the one before was lost", poll)
    for broken in broken_transactions(history):
        if broken.is_hit:
            text = (
                f"{broken.missing[0].text}, and the abort of the transaction before {broken.transaction.name} was lost"
            )
            yield _late_end(broken.transaction, text, broken.missing[0].send)


def early_name(transaction: Transaction, reading: Operation) -> str:
    """What to call it that something of a transaction was read before it was committed."""
    if reading.process == transaction.process:
        return "precommitted-read"
    if transaction.may_be_hit(commit=True):
        return "late-end"
    return "aborted-read" if transaction.is_aborted else "intermediate-read"


def _early_sights(history: History) -> Iterator[tuple[Transaction, Operation, Operation]]:
    orders = {order.name: order for order in partition_orders(history)}
    for transaction in transactions(history):
        if (sight := _first_early_sight(transaction, orders)) is not None:
            yield transaction, *sight


def _first_early_sight(
    transaction: Transaction, orders: dict[str, PartitionOrder]
) -> tuple[Operation, Operation] | None:
    for send in transaction.sends:
        for poll in orders[send.asked["partition"]].visible.get(send.asked["value"], ()):
            if not transaction.was_asked_before(poll):
                return send, poll
    return None


def _state(transaction: Transaction) -> str:
    return "which is not committed" if transaction.is_aborted else "before anybody asked to commit it"


def _late_end(transaction: Transaction, text: str, operation: Operation) -> Finding:
    before = [end.begun for end in transaction.previous.ends] if transaction.previous is not None else []
    return Finding("late-end", transaction.transactional_id, text, (*before, transaction.begun, operation.begun))
