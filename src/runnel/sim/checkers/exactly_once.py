"""Records that are made into others, in transactions together with the offsets of the group that reads them.

A send may name its source. Of each record of a partition that is a source, exactly one value is committed: not two,
and not none below what the group has committed.
"""

from collections.abc import Iterator

from runnel.sim.checkers.finding import Finding
from runnel.sim.checkers.order import partition_orders
from runnel.sim.checkers.transaction import transactions
from runnel.sim.history import History, Operation


def find_doubled(history: History) -> Iterator[Finding]:
    """A record of which two values were made that are both committed."""
    for source, sends in _made(history).items():
        if len(sends) > 1:
            values = ", ".join(str(send.asked["value"]) for send in sends)
            yield Finding("doubled", source, f"it was made into {values}", tuple(send.begun for send in sends))


def find_missed(history: History) -> Iterator[Finding]:
    """A record below what a transaction has committed of its partition, of which nothing was made."""
    drained = {name for drain in history.of("drain") if drain.is_ok for name in drain.asked["partitions"]}
    targets = {send.asked["partition"] for send in history.of("send") if "source" in send.asked}
    if not targets or not targets <= drained:
        return
    made, done = _made(history), _done(history)
    for order in partition_orders(history):
        for offset in order.offsets:
            source = f"{order.name}:{offset}"
            if offset < done.get(order.name, 0) and source not in made:
                text = f"nothing was made of it, though {done[order.name]} is committed"
                yield Finding("missed", source, text)


def _made(history: History) -> dict[str, list[Operation]]:
    """The values that somebody saw, by what they were made of."""
    found: dict[str, list[Operation]] = {}
    for order in partition_orders(history):
        for value in order.visible:
            send = order.sends.get(value)
            if send is not None and "source" in send.asked:
                found.setdefault(send.asked["source"], []).append(send)
    return found


def _done(history: History) -> dict[str, int]:
    """How far each source was read in transactions that are committed."""
    sources = {send.asked["source"].rpartition(":")[0] for send in history.of("send") if "source" in send.asked}
    found: dict[str, int] = {}
    for transaction in transactions(history):
        for part in transaction.offsets if transaction.is_committed else ():
            for partition, offset in part.asked["offsets"].items():
                if partition in sources:
                    found[partition] = max(offset, found.get(partition, 0))
    return found
