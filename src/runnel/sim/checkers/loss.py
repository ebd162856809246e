"""What was acknowledged is there, and what is there was sent."""

from collections.abc import Iterator

from runnel.sim.checkers.finding import Finding
from runnel.sim.checkers.order import partition_orders
from runnel.sim.history import FAIL, History


def find_lost_writes(history: History) -> Iterator[Finding]:
    """A value that was acknowledged and that nobody read, though somebody read beyond it."""
    for order in partition_orders(history):
        highest = max(order.reads, default=-1)
        for value, offset in order.acknowledged.items():
            if 0 <= offset < highest and value not in order.read_offsets:
                text = f"{value} was acknowledged at offset {offset}; offset {highest} was read, it was not"
                yield Finding("lost-write", order.name, text, (order.sends[value].begun,))


def find_unseen(history: History) -> Iterator[Finding]:
    """A value that was acknowledged and that the last reader, who read everything, did not see."""
    drained = {name for drain in history.of("drain") if drain.is_ok for name in drain.asked["partitions"]}
    for order in partition_orders(history):
        highest = max(order.reads, default=-1)
        for value, offset in order.acknowledged.items():
            if order.name in drained and value not in order.read_offsets and not 0 <= offset < highest:
                place = f"at offset {offset}" if offset >= 0 else "without an offset"
                text = f"{value} was acknowledged {place} and was never read"
                yield Finding("unseen", order.name, text, (order.sends[value].begun,))


def find_aborted_reads(history: History) -> Iterator[Finding]:
    """A value that was read although sending it had surely failed."""
    for order in partition_orders(history):
        for value, offsets in order.read_offsets.items():
            send = order.sends.get(value)
            if send is not None and send.outcome == FAIL:
                text = f"{value} was refused and is at offset {min(offsets)}"
                yield Finding("aborted-read", order.name, text, (send.begun,))


def find_phantoms(history: History) -> Iterator[Finding]:
    """A value that nobody had sent when it was read."""
    for order in partition_orders(history):
        for offset, values in sorted(order.reads.items()):
            for value, polls in values.items():
                send = order.sends.get(value)
                early = [poll for poll in polls if send is None or poll.ended_before(send)]
                if early:
                    text = f"{value} was read at offset {offset} before anybody sent it"
                    yield Finding("phantom", order.name, text, (early[0].begun,))
