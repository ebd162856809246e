"""The cluster as this broker knows it, built by replaying records and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from runnel.base.topic_name import collision_key
from runnel.machines.controller.record import (
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)


@dataclass(slots=True)
class Topic:
    """A topic: who replicates each partition, and who leads it now."""

    name: str
    topic_id: UUID
    assignment: tuple[tuple[int, ...], ...]
    leadership: dict[int, PartitionRecord] = field(default_factory=dict)

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
    """Topics, leaders and dynamic configuration."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._configs: dict[tuple[ConfigKind, str], Mapping[str, str]] = {}

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
            case TopicRecord(name, topic_id, assignment):
                self._replay_topic(name, topic_id, assignment)
            case PartitionRecord(topic=name, partition=partition):
                self.topics[name].leadership[partition] = record
            case TopicRemoved(name):
                if topic := self.topics.pop(name, None):
                    del self.topics_by_id[topic.topic_id]
                    self._collisions.pop(collision_key(name), None)
                    self._configs.pop((ConfigKind.TOPIC, name), None)
            case ConfigRecord(kind, name, values):
                if values:
                    self._configs[kind, name] = dict(values)
                else:
                    self._configs.pop((kind, name), None)

    def _replay_topic(self, name: str, topic_id: UUID, assignment: tuple[tuple[int, ...], ...]) -> None:
        topic = self.topics.get(name)
        if topic is not None and topic.topic_id == topic_id:
            topic.assignment = assignment
            return
        self.topics[name] = self.topics_by_id[topic_id] = Topic(name, topic_id, assignment)
        self._collisions[collision_key(name)] = name
