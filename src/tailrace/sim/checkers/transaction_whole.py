"""Checks of atomicity: all values and offsets of a transaction are visible, or none."""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.group_offset import doubtful_offsets
from tailrace.sim.checkers.missing import broken_transactions
from tailrace.sim.checkers.order import partition_orders
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.history import History, Operation


def find_torn_transactions(history: History) -> Iterator[Finding]:
    """Find transactions of which some values were read and others are missing."""
    for broken in broken_transactions(history):
        if not broken.is_hit:
            transaction, first = broken.transaction, broken.missing[0]
            text = f"{len(broken.missing)} of {len(transaction.sends)} values of {transaction.name}: {first.text}"
            yield Finding("torn-transaction", first.order.name, text, (transaction.begun, first.send.begun))


def find_hanging_transactions(history: History) -> Iterator[Finding]:
    """Find partitions with a transaction that is still open at the end, so that their end cannot be read."""
    for drain in history.of("drain"):
        for partition in drain.told.get("stuck", ()):
            text = f"{drain.process} could not read to its end"
            yield Finding("hanging-transaction", partition, text, (drain.begun,))


def find_torn_offsets(history: History) -> Iterator[Finding]:
    """Find committed transactions whose offsets the group did not have afterwards."""
    doubtful = doubtful_offsets(history)
    looks = [look for look in history.of("committed") if look.is_ok]
    for transaction in transactions(history):
        if transaction.is_aborted or (certain_at := _certain_at(transaction, history)) is None:
            continue
        for part in transaction.offsets:
            if part.is_ok and (found := _look_without(part, certain_at, looks, doubtful)) is not None:
                text = f"{found.process} did not find the offsets of {transaction.name}, which was committed"
                yield Finding("torn-transaction", part.asked["group"], text, (part.begun, found.begun))


def _certain_at(transaction: Transaction, history: History) -> int | None:
    """Return the earliest time at which the transaction was certainly committed."""
    moments = [commit.ended for commit in transaction.commits if commit.is_ok and commit.ended is not None]
    visible = {order.name: order.visible for order in partition_orders(history)}
    for send in transaction.sends:
        polls = visible[send.asked["partition"]].get(send.asked["value"], ())
        moments += [poll.ended for poll in polls if poll.ended is not None and transaction.was_asked_before(poll)]
    return min(moments, default=None)


def _look_without(
    part: Operation, certain_at: int, looks: list[Operation], doubtful: set[tuple[str, str, int]]
) -> Operation | None:
    """Return a later read of the group's offsets that found less, before any that found as much."""
    group = part.asked["group"]
    for partition, wanted in part.asked["offsets"].items():
        for look in looks:
            if look.asked["group"] != group or partition not in look.told["offsets"]:
                continue
            offset = look.told["offsets"][partition]
            if offset >= wanted:
                break
            if look.begun > certain_at and (group, partition, offset) not in doubtful:
                return look
    return None
