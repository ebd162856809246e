"""Checks of fencing: a fenced producer writes and commits nothing."""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.order import partition_orders, seen_parts
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.history import History, Operation


def find_commits_after_fencing(history: History) -> Iterator[Finding]:
    """Find commits that began after the producer was fenced and still took effect."""
    orders = {order.name: order for order in partition_orders(history)}
    inits = _inits(history)
    for transaction in transactions(history):
        parts = seen_parts(transaction, orders)
        for commit in transaction.commits:
            fence = _fence_before(commit, inits.get(transaction.transactional_id, []))
            if fence is not None and (commit.is_ok or (parts and _is_only_hope(commit, transaction))):
                yield _finding("commit-after-fencing", transaction, fence, commit, "committed")


def find_writes_after_fencing(history: History) -> Iterator[Finding]:
    """Find acknowledged writes of a transaction that were sent after the producer was fenced."""
    inits = _inits(history)
    for transaction in transactions(history):
        for part in (*transaction.sends, *transaction.offsets):
            fence = _fence_before(part, inits.get(transaction.transactional_id, []))
            if fence is not None and part.is_ok:
                yield _finding("write-after-fencing", transaction, fence, part, "wrote to")
                break


def _inits(history: History) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for init in history.of("init"):
        if init.is_ok:
            found.setdefault(init.asked["transactional_id"], []).append(init)
    return found


def _fence_before(operation: Operation, inits: list[Operation]) -> Operation | None:
    """Return the init that fenced the producer before the operation: one that began after the producer's own."""
    own = [init for init in inits if init.process == operation.process and init.ended_before(operation)]
    fences = [init for init in inits if init.ended_before(operation) and init.process != operation.process]
    return next((fence for fence in fences if own and own[-1].ended_before(fence)), None)


def _is_only_hope(commit: Operation, transaction: Transaction) -> bool:
    """Return whether no other attempt can have committed the transaction."""
    return transaction.commits == [commit]


def _finding(name: str, transaction: Transaction, fence: Operation, operation: Operation, verb: str) -> Finding:
    text = f"{operation.process} {verb} {transaction.name} after {fence.process} had fenced it"
    return Finding(name, transaction.transactional_id, text, (fence.begun, operation.begun))
