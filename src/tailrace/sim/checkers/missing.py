"""Acknowledged values that were never read, and the transactions that they belong to."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tailrace.sim.checkers.order import PartitionOrder, partition_orders
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.history import History, Operation


class Missing(NamedTuple):
    """An acknowledged value that was not read. Its offset may be unknown (-1)."""

    order: PartitionOrder
    value: object
    offset: int
    is_passed: bool
    """Whether a later offset was read; otherwise the whole partition was read without it."""

    @property
    def send(self) -> Operation:
        return self.order.sends[self.value]

    @property
    def text(self) -> str:
        place = f"at offset {self.offset}" if self.offset >= 0 else "without an offset"
        if self.is_passed:
            return f"{self.value} was acknowledged {place}; offset {self.order.visible_end} was read, but it was not"
        return f"{self.value} was acknowledged {place} and was never read"


@lru_cache(maxsize=1)  # several checkers use it in turn
def missing_values(history: History) -> list[Missing]:
    """Return all missing values, by partition."""
    drained = {name for drain in history.of("drain") if drain.is_ok for name in drain.asked["partitions"]}
    return [missing for order in partition_orders(history) for missing in _missing(order, order.name in drained)]


def _missing(order: PartitionOrder, is_drained: bool) -> Iterator[Missing]:
    for value, offset in order.acknowledged.items():
        is_passed = 0 <= offset < order.visible_end
        if value not in order.visible and (is_passed or is_drained) and not order.may_be_deleted(value):
            yield Missing(order, value, offset, is_passed)


class Broken(NamedTuple):
    """A transaction of which a part is missing while another is present, or which a late end may have aborted."""

    transaction: Transaction
    missing: list[Missing]
    is_hit: bool
    """Whether the end of the previous transaction may have aborted this one."""


@lru_cache(maxsize=1)
def broken_transactions(history: History) -> list[Broken]:
    """Return transactions that lost some of their values. If all values are lost, they count as lost values."""
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
    """Return the missing values that are not part of a broken transaction."""
    broken = {broken.transaction.name for broken in broken_transactions(history)}
    return [missing for missing in missing_values(history) if missing.send.asked.get("transaction") not in broken]
