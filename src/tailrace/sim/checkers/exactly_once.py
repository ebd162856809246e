"""Checks of exactly-once copies: values written in transactions together with the group's offsets.

A send may name its source. For each record of a source partition, exactly one value is committed: not two, and not
none below the group's committed offset. A source record that was deleted on request may have none.
"""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.order import partition_orders
from tailrace.sim.checkers.transaction import transactions
from tailrace.sim.history import History, Operation


def find_doubled(history: History) -> Iterator[Finding]:
    """Find records from which two committed values were made."""
    for source, sends in _made(history).items():
        if len(sends) > 1:
            values = ", ".join(str(send.asked["value"]) for send in sends)
            text = f"several committed values were made from it: {values}"
            yield Finding("doubled", source, text, tuple(send.begun for send in sends))


def find_missed(history: History) -> Iterator[Finding]:
    """Find records below the committed offset of their partition from which no value was made."""
    drained = {name for drain in history.of("drain") if drain.is_ok for name in drain.asked["partitions"]}
    targets = {send.asked["partition"] for send in history.of("send") if "source" in send.asked}
    if not targets or not targets <= drained:
        return
    made, done = {*_made(history), *_perhaps_deleted(history)}, _done(history)
    for order in partition_orders(history):
        for offset in (offset for offset in order.offsets if offset >= order.deleted_end):
            source = f"{order.name}:{offset}"
            if offset < done.get(order.name, 0) and source not in made:
                text = f"no value was made from it, but offset {done[order.name]} is committed"
                yield Finding("missed", source, text)


def _made(history: History) -> dict[str, list[Operation]]:
    """Return the sends of visible values, by source."""
    found: dict[str, list[Operation]] = {}
    for order in partition_orders(history):
        for value in order.visible:
            send = order.sends.get(value)
            if send is not None and "source" in send.asked:
                found.setdefault(send.asked["source"], []).append(send)
    return found


def _perhaps_deleted(history: History) -> Iterator[str]:
    """Yield the sources of values that an administrator may have deleted since."""
    for order in partition_orders(history):
        for value in order.told:
            source = order.sends[value].asked.get("source")
            if source is not None and order.may_be_deleted(value):
                yield source


def _done(history: History) -> dict[str, int]:
    """Return the offset up to which committed transactions have read each source."""
    sources = {send.asked["source"].rpartition(":")[0] for send in history.of("send") if "source" in send.asked}
    found: dict[str, int] = {}
    for transaction in transactions(history):
        for part in transaction.offsets if transaction.is_committed else ():
            for partition, offset in part.asked["offsets"].items():
                if partition in sources:
                    found[partition] = max(offset, found.get(partition, 0))
    return found
