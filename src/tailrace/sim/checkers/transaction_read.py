"""Checks of isolation: a `read_committed` consumer sees nothing of a transaction that is not committed yet.

The anomaly has three names, by the state of the transaction: an aborted read saw data that certainly was never
committed, an intermediate read saw data that was not committed yet, and a precommitted read is one by the transaction's
own producer. A late end is a guess: an end of the previous transaction with an unknown outcome ended this one instead.
It explains data that is visible too early, and lost data of a committed transaction.
"""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.missing import broken_transactions
from tailrace.sim.checkers.order import PartitionOrder, partition_orders
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.history import History, Operation


def find_dirty_reads(history: History) -> Iterator[Finding]:
    """Find the first read of each uncommitted transaction."""
    for transaction, send, poll in _early_sights(history):
        name = early_name(transaction, poll)
        if name != "late-end":
            text = f"{poll.process} read {send.asked['value']} of {transaction.name}, {_state(transaction)}"
            yield Finding(name, send.asked["partition"], text, (send.begun, poll.begun))


def find_late_ends(history: History) -> Iterator[Finding]:
    """Find transactions that the end of the previous one seems to have ended."""
    for transaction, send, poll in _early_sights(history):
        if early_name(transaction, poll) == "late-end":
            text = f"{poll.process} read {send.asked['value']} of {transaction.name}, {_state(transaction)}"
            yield _late_end(transaction, f"{text}, and the commit of the previous one was lost", poll)
    for broken in broken_transactions(history):
        if broken.is_hit:
            text = f"{broken.missing[0].text}, and the abort before {broken.transaction.name} was lost"
            yield _late_end(broken.transaction, text, broken.missing[0].send)


def early_name(transaction: Transaction, reading: Operation) -> str:
    """Return the name of the anomaly that data of a transaction was read before its commit."""
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
    return "which is not committed" if transaction.is_aborted else "before its commit was requested"


def _late_end(transaction: Transaction, text: str, operation: Operation) -> Finding:
    before = [end.begun for end in transaction.previous.ends] if transaction.previous is not None else []
    return Finding("late-end", transaction.transactional_id, text, (*before, transaction.begun, operation.begun))
