"""The cluster as this broker knows it, built by replaying records and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from runnel.base.topic_name import collision_key
from runnel.machines.controller.record import (
    NO_BROKER,
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    ControllerRemoved,
    PartitionRecord,
    PartitionRemoved,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)


@dataclass(slots=True)
class Topic:
    """A topic: who replicates each partition, and who leads it now.

    States of partitions that the topic does not have are kept for the moment in which it has them, or nothing of it.
    """

    name: str
    topic_id: UUID
    assignment: tuple[tuple[int, ...], ...]
    leadership: dict[int, PartitionRecord] = field(default_factory=dict)
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    coming: dict[int, PartitionRecord] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return len(self.assignment)


@dataclass(frozen=True, slots=True)
class Node:
    """A broker that clients may connect to."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class ClusterImage:
    """Brokers, topics, leaders and dynamic configuration."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRecord] = {}
        self.admitted: dict[int, int] = {}
        self.admitted_incarnations: dict[int, str] = {}
        self.controller_id = NO_BROKER
        self.controller_epoch = 0
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.hidden: dict[str, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._configs: dict[tuple[ConfigKind, str], Mapping[str, str]] = {}

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is there and the controller has dealt with its present registration."""
        broker = self.brokers.get(broker_id)
        return broker is not None and self.admitted.get(broker_id) == broker.epoch

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is live and means to stay: it may lead, hold new replicas and join an ISR."""
        return self.is_live(broker_id) and not self.brokers[broker_id].is_stopping

    def active_racks(self) -> dict[int, str | None]:
        """The brokers that new replicas can be placed on, each with its rack."""
        return {broker.broker_id: broker.rack for broker in self.brokers.values() if self.is_active(broker.broker_id)}

    def is_known(self, broker_id: int) -> bool:
        """Whether a broker belongs to the cluster, be it there or not."""
        return broker_id in self.brokers or broker_id in self.admitted

    def config(self, kind: ConfigKind, name: str) -> Mapping[str, str]:
        """The dynamic configuration of a topic, broker or group; empty when there is none."""
        return self._configs.get((kind, name), {})

    def configured(self, kind: ConfigKind) -> list[str]:
        """The names of those that have a dynamic configuration, in order."""
        return sorted(name for other, name in self._configs if other is kind)

    def colliding_topic(self, name: str) -> str | None:
        """Another topic whose metrics `name` would share."""
        other = self._collisions.get(collision_key(name))
        return other if other != name else None

    def replay(self, record: Record) -> None:
        """Take in one decision, live or at start-up alike."""
        match record:
            case TopicRecord():
                self._replay_topic(record)
            case PartitionRecord(topic=name, partition=partition):
                # The topic may be gone: on the way from the store the end of a topic can overtake what it had.
                if topic := self.topics.get(name) or self.hidden.get(name):
                    states = topic.leadership if partition < topic.partition_count else topic.coming
                    states[partition] = record
            case PartitionRemoved(name, partition):
                if topic := self.topics.get(name) or self.hidden.get(name):
                    topic.coming.pop(partition, None)
            case TopicHidden(name, topic_id):
                topic = self._forget_topic(name) or self.hidden.get(name)
                is_known = topic is not None and topic.topic_id == topic_id
                states = {**topic.leadership, **topic.coming} if topic is not None and is_known else {}
                self.hidden[name] = Topic(name, topic_id, (), coming=states)
            case TopicRemoved(name):
                self.hidden.pop(name, None)
                if self._forget_topic(name):
                    self._configs.pop((ConfigKind.TOPIC, name), None)
            case ConfigRecord(kind, name, values):
                if values:
                    self._configs[kind, name] = dict(values)
                else:
                    self._configs.pop((kind, name), None)
            case _:
                self._replay_broker(record)

    def _replay_broker(
        self,
        record: BrokerRecord | BrokerRemoved | BrokerAdmitted | BrokerForgotten | ControllerRecord | ControllerRemoved,
    ) -> None:
        match record:
            case BrokerRecord(broker_id):
                self.brokers[broker_id] = record
            case BrokerRemoved(broker_id):
                self.brokers.pop(broker_id, None)
            case BrokerAdmitted(broker_id, epoch, incarnation):
                self.admitted[broker_id] = epoch
                self.admitted_incarnations[broker_id] = incarnation
            case BrokerForgotten(broker_id):
                self.admitted.pop(broker_id, None)
                self.admitted_incarnations.pop(broker_id, None)
            case ControllerRecord(broker_id, epoch):
                self.controller_id, self.controller_epoch = broker_id, epoch
            case ControllerRemoved():
                self.controller_id = NO_BROKER

    def _forget_topic(self, name: str) -> Topic | None:
        topic = self.topics.pop(name, None)
        if topic is not None:
            del self.topics_by_id[topic.topic_id]
            self._collisions.pop(collision_key(name), None)
        return topic

    def _replay_topic(self, record: TopicRecord) -> None:
        topic = self.topics.get(record.name)
        if topic is None or topic.topic_id != record.topic_id:
            self._forget_topic(record.name)
            topic = self.hidden.pop(record.name, None)
            if topic is None or topic.topic_id != record.topic_id:
                topic = Topic(record.name, record.topic_id, record.assignment)
            self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
            self._collisions[collision_key(topic.name)] = topic.name
        topic.assignment, topic.adding, topic.removing = record.assignment, record.adding, record.removing
        for index in [index for index in topic.coming if index < topic.partition_count]:
            topic.leadership[index] = topic.coming.pop(index)
