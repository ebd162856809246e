"""The order of the values in each partition, from all that anybody read and all acknowledgements that name offsets."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from runnel.sim.checkers.transaction import Transaction, transactions
from runnel.sim.history import FAIL, READ_COMMITTED, History, Operation, Record


@dataclass
class PartitionOrder:
    """Everything that a history says of one partition. Sightings are operations, in the history's order."""

    name: str
    sends: dict[object, Operation] = field(default_factory=dict)
    told: dict[object, int] = field(default_factory=dict)
    """The offsets that senders were told, or -1; what a transaction sent may still be aborted."""
    acknowledged: dict[object, int] = field(default_factory=dict)
    """Those of them that must be there, as nobody can take them back."""
    reads: dict[int, dict[object, list[Operation]]] = field(default_factory=lambda: defaultdict(dict))
    visible: dict[object, list[Operation]] = field(default_factory=dict)
    """What was read by readers to whom only what is committed is shown."""
    visible_end: int = -1

    @cached_property
    def read_offsets(self) -> dict[object, set[int]]:
        """Where each value was read."""
        found: dict[object, set[int]] = defaultdict(set)
        for offset, values in self.reads.items():
            for value in values:
                found[value].add(offset)
        return dict(found)

    @cached_property
    def offsets(self) -> list[int]:
        """Every offset at which there is a record that every reader gets, in order."""
        seen = {offset for offset, values in self.reads.items() if not self.visible.keys().isdisjoint(values)}
        return sorted(seen | {offset for offset in self.acknowledged.values() if offset >= 0})

    def offset_of(self, value: object) -> int | None:
        """Where a value landed, as far as anybody knows; the first place if it landed twice."""
        if value in self.read_offsets:
            return min(self.read_offsets[value])
        offset = self.told.get(value, -1)
        return offset if offset >= 0 else None

    def note_send(self, send: Operation) -> None:
        """Add what its sender knows of a value."""
        value = send.asked["value"]
        self.sends[value] = send
        if send.is_ok:
            self.told[value] = send.told.get("offset", -1)
            if "transaction" not in send.asked:
                self.acknowledged[value] = self.told[value]

    def note_read(self, record: Record, poll: Operation) -> None:
        """Add that somebody read a record."""
        self.reads[record.offset].setdefault(record.value, []).append(poll)
        if poll.asked.get("isolation", READ_COMMITTED) == READ_COMMITTED:
            self.visible.setdefault(record.value, []).append(poll)
            self.visible_end = max(self.visible_end, record.offset)


@lru_cache(maxsize=1)  # every checker asks for it, one after the other
def partition_orders(history: History) -> list[PartitionOrder]:
    """What the history says of each partition, by name."""
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
    return [orders[name] for name in sorted(orders)]


def seen_parts(transaction: Transaction, orders: dict[str, PartitionOrder]) -> list[Operation]:
    """The sends of a transaction whose values somebody saw who sees only what is committed."""
    return [send for send in transaction.sends if send.asked["value"] in orders[send.asked["partition"]].visible]


def _acknowledge(transaction: Transaction, orders: dict[str, PartitionOrder]) -> None:
    """All of it must be there."""
    for send in transaction.sends:
        if send.is_ok:
            partition, value = orders[send.asked["partition"]], send.asked["value"]
            partition.acknowledged[value] = partition.told[value]
