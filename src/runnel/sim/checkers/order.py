"""The order of the values in each partition, from all that anybody read and all acknowledgements that name offsets."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from runnel.sim.history import FAIL, History, Operation


@dataclass
class PartitionOrder:
    """Everything that a history says of one partition. Sightings are operations, in the history's order."""

    name: str
    sends: dict[object, Operation] = field(default_factory=dict)
    reads: dict[int, dict[object, list[Operation]]] = field(default_factory=lambda: defaultdict(dict))
    acknowledged: dict[object, int] = field(default_factory=dict)

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
        """Every offset at which a record is known to be, in order."""
        return sorted({*self.reads, *(offset for offset in self.acknowledged.values() if offset >= 0)})

    def offset_of(self, value: object) -> int | None:
        """Where a value landed, as far as anybody knows; the first place if it landed twice."""
        if value in self.read_offsets:
            return min(self.read_offsets[value])
        offset = self.acknowledged.get(value, -1)
        return offset if offset >= 0 else None


@lru_cache(maxsize=1)  # every checker asks for it, one after the other
def partition_orders(history: History) -> list[PartitionOrder]:
    """What the history says of each partition, by name."""
    orders: dict[str, PartitionOrder] = {}

    def order(name: str) -> PartitionOrder:
        return orders.setdefault(name, PartitionOrder(name))

    for operation in history.of("send"):
        partition, value = order(operation.asked["partition"]), operation.asked["value"]
        partition.sends[value] = operation
        if operation.is_ok:
            partition.acknowledged[value] = operation.told.get("offset", -1)
    for operation in history.of("poll"):
        if operation.outcome != FAIL:
            for record in operation.records:
                order(record.partition).reads[record.offset].setdefault(record.value, []).append(operation)
    return [orders[name] for name in sorted(orders)]
