"""A small cluster as an image, for tests of what the controller decides."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from tailrace.machines.controller.election import Rule
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import (
    BrokerRecord,
    BrokerRemoved,
    PartitionRecord,
    Record,
    TopicRecord,
)
from tailrace.machines.controller.settle import settle


class Cluster:
    """Brokers that come and go, partitions, and a controller that settles what they leave."""

    def __init__(self, brokers: Iterable[int] = (1, 2, 3), rule: Rule | None = None) -> None:
        self.image = ClusterImage()
        self.rule = rule or Rule()
        self.epoch = 0
        for broker in brokers:
            self.arrive(broker)
        self.settle()

    def replay(self, *records: Record) -> None:
        for record in records:
            self.image.replay(record)

    def arrive(self, broker: int, *, is_clean: bool = True) -> None:
        self.epoch += 1
        self.replay(BrokerRecord(broker, self.epoch, is_clean=is_clean))

    def die(self, broker: int) -> None:
        self.replay(BrokerRemoved(broker))

    def stop(self, broker: int) -> None:
        self.replay(BrokerRecord(broker, self.image.brokers[broker].epoch, is_clean=True, is_stopping=True))

    def add_topic(self, *assignment: Sequence[int], name: str = "t") -> None:
        replicas = tuple(tuple(partition) for partition in assignment)
        self.replay(TopicRecord(name, UUID(int=len(self.image.topics) + 1), replicas))
        self.replay(*(PartitionRecord(name, index, group[0], 0, group) for index, group in enumerate(replicas)))

    def settle(self) -> list[Record]:
        """Settle and replay; what was decided comes back."""
        records: list[Record] = []
        for group in settle(self.image, lambda _: self.rule):
            self.replay(*group)
            records += group
        return records

    def state(self, index: int = 0, name: str = "t") -> PartitionRecord:
        return self.image.topics[name].leadership[index]

    def summary(self, index: int = 0) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        """Leader, leader epoch, ISR and ELR."""
        state = self.state(index)
        return state.leader, state.leader_epoch, state.isr, state.elr
