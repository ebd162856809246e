"""Checks of offsets: one value at each offset, one offset for each value, and the offset that was acknowledged."""

from collections.abc import Iterator

from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.order import PartitionOrder, partition_orders
from tailrace.sim.history import History


def find_inconsistent_offsets(history: History) -> Iterator[Finding]:
    """Find offsets for which reads or acknowledgements show different values."""
    for order in partition_orders(history):
        found: dict[int, set[object]] = {offset: set(values) for offset, values in order.reads.items()}
        for value, offset in order.told.items():
            if offset >= 0:
                found.setdefault(offset, set()).add(value)
        for offset in sorted(found):
            values = sorted(found[offset], key=str)
            if len(values) > 1:
                text = f"offset {offset} has {', '.join(map(str, values))}"
                yield Finding("inconsistent-offsets", order.name, text, _lines(order, values))


def find_duplicates(history: History) -> Iterator[Finding]:
    """Find values of an idempotent producer that were read at several offsets."""
    for order in partition_orders(history):
        for value, offsets in order.read_offsets.items():
            send = order.sends.get(value)
            if len(offsets) > 1 and (send is None or send.asked.get("idempotent", True)):
                text = f"{value} is at offsets {', '.join(map(str, sorted(offsets)))}"
                yield Finding("duplicate", order.name, text, _lines(order, [value]))


def find_misplaced(history: History) -> Iterator[Finding]:
    """Find values that are not at the acknowledged offset."""
    for order in partition_orders(history):
        for value, offset in order.told.items():
            seen = order.read_offsets.get(value, set())
            if offset >= 0 and seen and offset not in seen:
                text = f"{value} was acknowledged at offset {offset}, but is at {min(seen)}"
                yield Finding("misplaced", order.name, text, _lines(order, [value]))


def _lines(order: PartitionOrder, values: list[object]) -> tuple[int, ...]:
    """Return the lines where the values were sent and first read."""
    found = [order.sends[value].begun for value in values if value in order.sends]
    for offset in sorted(order.reads):
        found += [order.reads[offset][value][0].begun for value in values if value in order.reads[offset]]
    return tuple(sorted(found))
