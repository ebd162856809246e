"""The order of values in each partition, from all reads and all acknowledgements with offsets."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from tailrace.sim.checkers.deletion import deleted_end
from tailrace.sim.checkers.transaction import Transaction, transactions
from tailrace.sim.history import FAIL, READ_COMMITTED, History, Operation, Record


@dataclass
class PartitionOrder:
    """All information of a history about one partition. Operations are in the history's order."""

    name: str
    sends: dict[object, Operation] = field(default_factory=dict)
    told: dict[object, int] = field(default_factory=dict)
    """The acknowledged offsets, or -1. Values of a transaction may still be aborted."""
    acknowledged: dict[object, int] = field(default_factory=dict)
    """The acknowledged offsets of values that must be readable."""
    reads: dict[int, dict[object, list[Operation]]] = field(default_factory=lambda: defaultdict(dict))
    visible: dict[object, list[Operation]] = field(default_factory=dict)
    """The values read by `read_committed` consumers."""
    visible_end: int = -1
    deleted_end: float = 0
    """The offset below which an administrator may have deleted the records."""

    @cached_property
    def read_offsets(self) -> dict[object, set[int]]:
        """The offsets at which each value was read."""
        found: dict[object, set[int]] = defaultdict(set)
        for offset, values in self.reads.items():
            for value in values:
                found[value].add(offset)
        return dict(found)

    @cached_property
    def offsets(self) -> list[int]:
        """The offsets of all records that every consumer gets, in order."""
        seen = {offset for offset, values in self.reads.items() if not self.visible.keys().isdisjoint(values)}
        return sorted(seen | {offset for offset in self.acknowledged.values() if offset >= 0})

    def offset_of(self, value: object) -> int | None:
        """Return the offset of a value if it is known; the first one if there are several."""
        if value in self.read_offsets:
            return min(self.read_offsets[value])
        offset = self.told.get(value, -1)
        return offset if offset >= 0 else None

    def may_be_deleted(self, value: object) -> bool:
        """Return whether an acknowledged value is, or may be, below the offset up to which records were deleted."""
        offset, send = self.told[value], self.sends[value]
        if offset >= 0 or self.deleted_end == 0:
            return 0 <= offset < self.deleted_end
        before = [other for other in self.sends.values() if other.process == send.process and other.begun < send.begun]
        found = (self.offset_of(other.asked["value"]) for other in before)
        return max((known for known in found if known is not None), default=-1) + 1 < self.deleted_end

    def note_send(self, send: Operation) -> None:
        """Add a send and its outcome."""
        value = send.asked["value"]
        self.sends[value] = send
        if send.is_ok:
            self.told[value] = send.told.get("offset", -1)
            if "transaction" not in send.asked:
                self.acknowledged[value] = self.told[value]

    def note_read(self, record: Record, poll: Operation) -> None:
        """Add a record that was read."""
        self.reads[record.offset].setdefault(record.value, []).append(poll)
        if poll.asked.get("isolation", READ_COMMITTED) == READ_COMMITTED:
            self.visible.setdefault(record.value, []).append(poll)
            self.visible_end = max(self.visible_end, record.offset)


@lru_cache(maxsize=1)  # every checker uses it in turn
def partition_orders(history: History) -> list[PartitionOrder]:
    """Return the information about each partition, by name."""
    orders: dict[str, PartitionOrder] = {}

    def order(name: str) -> PartitionOrder:
        return orders.setdefault(name, PartitionOrder(name))

    for operation in history.of("send"):
        order(operation.asked["partition"]).note_send(operation)
    for operation in history.of("poll"):
        if operation.outcome != FAIL:
            for record in operation.records:
                order(record.partition).note_read(record, operation)
    for transaction in transactions(history):
        if not transaction.is_aborted and (transaction.is_committed or seen_parts(transaction, orders)):
            _acknowledge(transaction, orders)
    for name, partition in orders.items():
        partition.deleted_end = deleted_end(history, name)
    return [orders[name] for name in sorted(orders)]


def seen_parts(transaction: Transaction, orders: dict[str, PartitionOrder]) -> list[Operation]:
    """Return the sends of a transaction whose values a `read_committed` consumer has read."""
    return [send for send in transaction.sends if send.asked["value"] in orders[send.asked["partition"]].visible]


def _acknowledge(transaction: Transaction, orders: dict[str, PartitionOrder]) -> None:
    """Record that all values of a transaction must be readable."""
    for send in transaction.sends:
        if send.is_ok:
            partition, value = orders[send.asked["partition"]], send.asked["value"]
            partition.acknowledged[value] = partition.told[value]
