"""What was acknowledged is there, and what is there was sent."""

from collections.abc import Iterator

from runnel.sim.checkers.finding import Finding
from runnel.sim.checkers.missing import lost_values
from runnel.sim.checkers.order import partition_orders
from runnel.sim.history import FAIL, History


def find_lost_writes(history: History) -> Iterator[Finding]:
    """A value that was acknowledged and that nobody read, though somebody read beyond it."""
    for missing in lost_values(history):
        if missing.is_passed:
            yield Finding("lost-write", missing.order.name, missing.text, (missing.send.begun,))


def find_unseen(history: History) -> Iterator[Finding]:
    """A value that was acknowledged and that the last reader, who read everything, did not see."""
    for missing in lost_values(history):
        if not missing.is_passed:
            yield Finding("unseen", missing.order.name, missing.text, (missing.send.begun,))


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
