"""A client's view of a cluster: brokers, topics and leaders."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tailrace.base.sentinel import NO_EPOCH
from tailrace.client.address import Address
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tailrace.protocol.primitive import ZERO_UUID

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and its address."""

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
    """A topic and its partitions in the order of their numbers, or the error of its metadata."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: tuple[Partition, ...]
    error: ErrorCode = ErrorCode.NONE

    @property
    def led_partitions(self) -> list[int]:
        """The partitions that have a leader."""
        return [partition.index for partition in self.partitions if partition.leader_id != NO_LEADER]

    def leader_id(self, partition: int) -> int:
        """Return the leader of a partition; -1 if it has none or does not exist."""
        return self.partitions[partition].leader_id if 0 <= partition < len(self.partitions) else NO_LEADER

    def leader_epoch(self, partition: int) -> int:
        """Return the leader epoch of a partition; -1 if it is unknown."""
        return self.partitions[partition].leader_epoch if 0 <= partition < len(self.partitions) else NO_EPOCH


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one broker described it."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, Node]
    topics: Mapping[str, Topic]

    def racks(self, names: Iterable[str]) -> dict[tuple[str, int], frozenset[str]]:
        """Return the racks of the replicas of some topics, as far as brokers have racks."""
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
        """Return the newer view with those topics of this one that it lacks, except the ones in `forget`.

        Brokers learn of elections at different times, so a leader of an older epoch is ignored.
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
    """Return the view of a Metadata response."""
    nodes = {
        broker.node_id: Node(broker.node_id, Address(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name: _read_topic(topic, topic.name) for topic in response.topics if topic.name is not None}
    return ClusterView(response.cluster_id, response.controller_id, nodes, topics)


def _newest(before: Topic, after: Topic) -> Topic:
    """Return the new metadata of a topic, with older leaders that have a higher epoch."""
    if before.topic_id != after.topic_id or after.topic_id == ZERO_UUID:
        return after  # the epochs of another topic of the same name start again
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
