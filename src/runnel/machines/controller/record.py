"""What the controller decides, as values: the only things that change the cluster image."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from uuid import UUID


class ConfigKind(Enum):
    """Whose dynamic configuration it is, by the name of its folder in the store."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"


CLUSTER_DEFAULT = "<default>"
"""The broker name under which configuration for every broker stands."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is there, with these replicas for each partition."""

    name: str
    topic_id: UUID
    assignment: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Who leads a partition, in which epoch, and who is in sync with the leader."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic, its partitions and its configuration are gone."""

    name: str


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """All dynamic configuration of one topic, broker or group; empty means none is left."""

    kind: ConfigKind
    name: str
    values: Mapping[str, str]


Record = TopicRecord | PartitionRecord | TopicRemoved | ConfigRecord
