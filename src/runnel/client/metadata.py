"""What a client knows of a cluster: its brokers, its topics, and who leads what."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from runnel.client.address import Address
from runnel.protocol.errors import ErrorCode
from runnel.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from runnel.protocol.primitive import ZERO_UUID

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it can be reached."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and its replicas; the leader is -1 while there is none."""

    index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions in the order of their numbers; or the error that stands in their place."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[Partition, ...]
    error: ErrorCode = ErrorCode.NONE

    @property
    def led_partitions(self) -> list[int]:
        """The partitions that can be written and read now."""
        return [partition.index for partition in self.partitions if partition.leader_id != NO_LEADER]

    def leader_id(self, partition: int) -> int:
        """The leader of a partition; -1 when it has none or does not exist."""
        return self.partitions[partition].leader_id if 0 <= partition < len(self.partitions) else NO_LEADER

    def leader_epoch(self, partition: int) -> int:
        """The epoch of that leader; -1 when it is not known."""
        return self.partitions[partition].leader_epoch if 0 <= partition < len(self.partitions) else NO_EPOCH


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one broker told it."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, Topic]

    def racks(self, names: Iterable[str]) -> dict[tuple[str, int], frozenset[str]]:
        """Where the replicas of all partitions of some topics are, as far as brokers tell."""
        rack_by_node = {node_id: node.rack for node_id, node in self.nodes.items() if node.rack}
        return {
            (name, partition.index): frozenset(
                rack_by_node[node_id] for node_id in partition.replicas if node_id in rack_by_node
            )
            for name in names
            if name in self.topics
            for partition in self.topics[name].partitions
        }

    def merge(self, newer: "ClusterView", forget: Iterable[str]) -> "ClusterView":
        """The newer view with the topics of this one that it does not speak of, save those in `forget`.

        Brokers hear of elections at different times, so a leader of an older epoch is not believed.
        """
        gone = set(forget)
        kept = {name: topic for name, topic in self.topics.items() if name not in gone}
        told = {
            name: _newest(self.topics[name], topic) if name in self.topics else topic
            for name, topic in newer.topics.items()
        }
        return replace(newer, topics=kept | told)


EMPTY_VIEW = ClusterView(None, -1, {}, {})


def read_metadata(response: MetadataResponse) -> ClusterView:
    """The view that a Metadata response gives."""
    nodes = {
        broker.node_id: Node(broker.node_id, Address(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name: _read_topic(topic, topic.name) for topic in response.topics if topic.name is not None}
    return ClusterView(response.cluster_id, response.controller_id, nodes, topics)


def _newest(before: Topic, after: Topic) -> Topic:
    """What is told of a topic now, with the leaders of before that were elected later."""
    if before.topic_id != after.topic_id or after.topic_id == ZERO_UUID:
        return after  # another topic of the same name counts its epochs anew
    pairs = zip(before.partitions, after.partitions, strict=False)
    if all(old.leader_epoch <= new.leader_epoch for old, new in pairs):
        return after
    newest = [
        replace(new, leader_id=old.leader_id, leader_epoch=old.leader_epoch)
        if old.index == new.index and old.leader_epoch > new.leader_epoch
        else new
        for old, new in zip(before.partitions, after.partitions, strict=False)
    ]
    return replace(after, partitions=(*newest, *after.partitions[len(newest) :]))


def _read_topic(topic: MetadataResponseTopic, name: str) -> Topic:
    partitions = tuple(
        Partition(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    )
    return Topic(name, topic.topic_id, topic.is_internal, partitions, ErrorCode(topic.error_code))
