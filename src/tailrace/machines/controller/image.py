"""The cluster image: the state of the cluster as this broker knows it, built only by replaying records."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tailrace.base.invariant import invariant
from tailrace.base.sentinel import NO_BROKER
from tailrace.base.topic_name import collision_key
from tailrace.machines.authorization.binding import AclBinding
from tailrace.machines.controller.record import (
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
from tailrace.machines.controller.security_record import AclPattern, AclRecord, TokenRecord, TokenRemoved


@dataclass(slots=True)
class Topic:
    """A topic: the replicas of each partition, and its state.

    `coming` has the states of partitions that the topic does not have yet, or that are being removed with it.
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
    """Brokers, topics, leaders, dynamic configs, ACLs and delegation tokens."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRecord] = {}
        self.admitted: dict[int, int] = {}
        self.admitted_incarnations: dict[int, str] = {}
        self.controller_id = NO_BROKER
        self.controller_epoch = 0
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.hidden: dict[str, Topic] = {}
        self.acls: dict[AclPattern, AclRecord] = {}
        self.tokens: dict[str, TokenRecord] = {}
        self._collisions: dict[str, str] = {}
        self._configs: dict[tuple[ConfigKind, str], Mapping[str, str]] = {}

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is registered and the controller has admitted this registration."""
        broker = self.brokers.get(broker_id)
        return broker is not None and self.admitted.get(broker_id) == broker.epoch

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is live and not stopping: it may lead, get new replicas and join an ISR."""
        return self.is_live(broker_id) and not self.brokers[broker_id].is_stopping

    def active_racks(self) -> dict[int, str | None]:
        """Return the brokers that new replicas can be placed on, each with its rack."""
        return {broker.broker_id: broker.rack for broker in self.brokers.values() if self.is_active(broker.broker_id)}

    def is_known(self, broker_id: int) -> bool:
        """Whether a broker belongs to the cluster, alive or not."""
        return broker_id in self.brokers or broker_id in self.admitted

    def config(self, kind: ConfigKind, name: str) -> Mapping[str, str]:
        """Return the dynamic configs of a resource; empty if there are none."""
        return self._configs.get((kind, name), {})

    def configured(self, kind: ConfigKind) -> list[str]:
        """Return the sorted names of the resources of a kind that have dynamic configs."""
        return sorted(name for other, name in self._configs if other is kind)

    def acl_bindings(self) -> Iterator[AclBinding]:
        """Yield all ACLs."""
        for record in self.acls.values():
            yield from record.bindings()

    def colliding_topic(self, name: str) -> str | None:
        """Return the topic whose metrics a topic called `name` would share, if there is one."""
        other = self._collisions.get(collision_key(name))
        return other if other != name else None

    def replay(self, record: Record) -> None:
        """Apply one record, in the same way at start-up and afterwards."""
        match record:
            case TopicRecord():
                self._replay_topic(record)
            case PartitionRecord(topic=name, partition=partition):
                # The topic may be gone: its removal can arrive from the store before the states of its partitions.
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
            case ConfigRecord():
                self._replay_config(record)
            case AclRecord() | TokenRecord() | TokenRemoved():
                self._replay_security(record)
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

    def _replay_config(self, record: ConfigRecord) -> None:
        if record.values:
            self._configs[record.kind, record.name] = dict(record.values)
        else:
            self._configs.pop((record.kind, record.name), None)

    def _replay_security(self, record: AclRecord | TokenRecord | TokenRemoved) -> None:
        match record:
            case AclRecord(pattern, entries):
                if entries:
                    self.acls[pattern] = record
                else:
                    self.acls.pop(pattern, None)
            case TokenRecord(token_id):
                self.tokens[token_id] = record
            case TokenRemoved(token_id):
                self.tokens.pop(token_id, None)

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
            invariant(topic.topic_id not in self.topics_by_id, f"topic {topic.name} has the id of another topic")
            self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
            self._collisions[collision_key(topic.name)] = topic.name
        topic.assignment, topic.adding, topic.removing = record.assignment, record.adding, record.removing
        for index in [index for index in topic.coming if index < topic.partition_count]:
            topic.leadership[index] = topic.coming.pop(index)
