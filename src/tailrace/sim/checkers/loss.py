"""Checks of lost and invented values: acknowledged values can be read, and every value read was sent."""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.missing import lost_values
from tailrace.sim.checkers.order import partition_orders
from tailrace.sim.history import FAIL, History


def find_lost_writes(history: History) -> Iterator[Finding]:
    """Find acknowledged values that were never read, although a later offset was."""
    for missing in lost_values(history):
        if missing.is_passed:
            yield Finding("lost-write", missing.order.name, missing.text, (missing.send.begun,))


def find_unseen(history: History) -> Iterator[Finding]:
    """Find acknowledged values that the final read of everything did not return."""
    for missing in lost_values(history):
        if not missing.is_passed:
            yield Finding("unseen", missing.order.name, missing.text, (missing.send.begun,))


def find_aborted_reads(history: History) -> Iterator[Finding]:
    """Find values that were read although their send certainly failed."""
    for order in partition_orders(history):
        for value, offsets in order.read_offsets.items():
            send = order.sends.get(value)
            if send is not None and send.outcome == FAIL:
                text = f"{value} was rejected, but is at offset {min(offsets)}"
                yield Finding("aborted-read", order.name, text, (send.begun,))


def find_phantoms(history: History) -> Iterator[Finding]:
    """Find values that were read before they were sent."""
    for order in partition_orders(history):
        for offset, values in sorted(order.reads.items()):
            for value, polls in values.items():
                send = order.sends.get(value)
                early = [poll for poll in polls if send is None or poll.ended_before(send)]
                if early:
                    text = f"{value} was read at offset {offset} before it was sent"
                    yield Finding("phantom", order.name, text, (early[0].begun,))
