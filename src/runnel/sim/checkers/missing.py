"""Values that must be there and that nobody saw, and what else is known of the transactions that they are from."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from runnel.sim.checkers.order import PartitionOrder, partition_orders
from runnel.sim.checkers.transaction import Transaction, transactions
from runnel.sim.history import History, Operation


class Missing(NamedTuple):
    """A value that was acknowledged, at an offset that may be unknown (-1), and not read."""

    order: PartitionOrder
    value: object
    offset: int
    is_passed: bool
    """Whether somebody read beyond it; else everything was read, and it was not there."""

    @property
    def send(self) -> Operation:
        return self.order.sends[self.value]

    @property
    def text(self) -> str:
        place = f"at offset {self.offset}" if self.offset >= 0 else "without an offset"
        if self.is_passed:
            return f"{self.value} was acknowledged {place}; offset {self.order.visible_end} was read, it was not"
        return f"{self.value} was acknowledged {place} and was never read"


@lru_cache(maxsize=1)  # several checkers ask for it, one after the other
def missing_values(history: History) -> list[Missing]:
    """All of them, by partition."""
    drained = {name for drain in history.of("drain") if drain.is_ok for name in drain.asked["partitions"]}
    return [missing for order in partition_orders(history) for missing in _missing(order, order.name in drained)]


def _missing(order: PartitionOrder, is_drained: bool) -> Iterator[Missing]:
    for value, offset in order.acknowledged.items():
        is_passed = 0 <= offset < order.visible_end
        if value not in order.visible and (is_passed or is_drained):
            yield Missing(order, value, offset, is_passed)


class Broken(NamedTuple):
    """A transaction of which a part is missing, and another is there or only a late end explains it."""

    transaction: Transaction
    missing: list[Missing]
    is_hit: bool
    """Whether the end of the transaction before it may have aborted this one."""


@lru_cache(maxsize=1)
def broken_transactions(history: History) -> list[Broken]:
    """Transactions that lost some of their values. One that lost all of them has no part here: its values are lost."""
    by_transaction: dict[str, list[Missing]] = {}
    for missing in missing_values(history):
        by_transaction.setdefault(missing.send.asked.get("transaction", ""), []).append(missing)
    found = []
    for transaction in transactions(history):
        missing_parts = by_transaction.get(transaction.name, [])
        is_hit = transaction.may_be_hit(commit=False)
        if missing_parts and (is_hit or len(missing_parts) < len(transaction.sends)):
            found.append(Broken(transaction, missing_parts, is_hit))
    return found


def lost_values(history: History) -> list[Missing]:
    """What is missing and is no part of a broken transaction."""
    broken = {broken.transaction.name for broken in broken_transactions(history)}
    return [missing for missing in missing_values(history) if missing.send.asked.get("transaction") not in broken]
