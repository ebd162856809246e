"""Checks of order: a producer's records are in send order, and a consumer gets every record once, in order."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.sim.checkers.deletion import deleted_end
from tailrace.sim.checkers.finding import Finding
from tailrace.sim.checkers.order import partition_orders
from tailrace.sim.history import History, Operation, Record


def find_nonmonotonic_sends(history: History) -> Iterator[Finding]:
    """Find values that precede an earlier value of the same idempotent producer."""
    for order in partition_orders(history):
        highest: dict[str, tuple[int, Operation]] = {}
        for send in sorted(order.sends.values(), key=lambda send: send.begun):
            offset = order.offset_of(send.asked["value"])
            if offset is None or not send.asked.get("idempotent", True):
                continue
            before, earlier = highest.get(send.process, (-1, send))
            if offset <= before:
                text = (
                    f"{send.asked['value']} is at offset {offset}, {earlier.asked['value']}, sent before, at {before}"
                )
                yield Finding("nonmonotonic-send", order.name, text, (earlier.begun, send.begun))
            else:
                highest[send.process] = (offset, send)


class _Step(NamedTuple):
    """Two records that a consumer got one after the other, without a change of its position in between."""

    before: Record
    after: Record
    first: Operation
    second: Operation

    def finding(self, name: str, text: str) -> Finding:
        prefix = "int-" if self.first is self.second else ""
        lines = tuple(sorted({self.first.begun, self.second.begun}))
        return Finding(prefix + name, self.after.partition, f"{self.second.process} {text}", lines)


def find_nonmonotonic_polls(history: History) -> Iterator[Finding]:
    """Find consumers that got a record again, or an earlier one, without a change of position."""
    for step in _steps(history):
        if step.after.offset <= step.before.offset:
            yield step.finding("nonmonotonic-poll", f"got offset {step.after.offset} after {step.before.offset}")


def find_poll_skips(history: History) -> Iterator[Finding]:
    """Find consumers that skipped a known record."""
    offsets = {order.name: order.offsets for order in partition_orders(history)}
    for step in _steps(history):
        known = offsets[step.after.partition]
        deleted = deleted_end(history, step.after.partition, _moment(step.second))
        following = bisect_right(known, max(step.before.offset, deleted - 1))
        if following < len(known) and known[following] < step.after.offset:
            text = f"got offset {step.after.offset} after {step.before.offset} and missed {known[following]}"
            yield step.finding("poll-skip", text)


def _moment(operation: Operation) -> int:
    return operation.begun if operation.kind == "assign" or operation.ended is None else operation.ended


def _steps(history: History) -> Iterator[_Step]:
    """Yield every step of every consumer from one record of a partition to the next."""
    last: dict[str, dict[str, tuple[Record, Operation]]] = {}
    # A rebalance may move a consumer during a poll, whose records come after that.
    for operation in sorted(history.of("poll", "assign"), key=_moment):
        positions = last.setdefault(operation.process, {})
        if operation.kind == "assign":
            for partition in operation.asked["partitions"]:
                positions.pop(partition, None)
            continue
        for record in operation.records if operation.is_ok else ():
            if record.partition in positions:
                before, first = positions[record.partition]
                yield _Step(before, record, first, operation)
            positions[record.partition] = (record, operation)
