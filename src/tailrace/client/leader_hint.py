"""The current leader that a broker names when it rejects a request (KIP-951)."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from tailrace.client.address import Address
from tailrace.client.metadata import ClusterView, Node, Topic
from tailrace.client.topic_partition import TopicPartition
from tailrace.protocol.messages.fetch import FetchResponseLeader, FetchResponseNode
from tailrace.protocol.messages.produce import ProduceResponseLeader, ProduceResponseNode


class LeaderHint(NamedTuple):
    """A leader and its leader epoch."""

    leader_id: int
    leader_epoch: int


Hints = Mapping[TopicPartition, LeaderHint]


def read_hint(leader: ProduceResponseLeader | FetchResponseLeader | None) -> LeaderHint | None:
    """Return the leader that an answer names, if any."""
    return None if leader is None or leader.leader_id < 0 else LeaderHint(leader.leader_id, leader.leader_epoch)


def take_hints(
    view: ClusterView,
    hints: Hints,
    nodes: Iterable[ProduceResponseNode | FetchResponseNode],
    asked_ids: Mapping[str, UUID],
) -> tuple[ClusterView, set[TopicPartition]]:
    """Return the view with all newer leaders whose address is known, and their partitions.

    A topic whose id is not the one in `asked_ids` was created again since, and the epochs of its leaders began again.
    """
    told = {node.node_id: Node(node.node_id, Address(node.host, node.port), node.rack) for node in nodes}
    known = {**view.nodes, **told}
    topics = dict(view.topics)
    taken = set()
    for target, hint in hints.items():
        topic = topics.get(target.topic)
        if topic is None or topic.topic_id != asked_ids[target.topic]:
            continue
        if hint.leader_id in known and _is_newer(topic, target.partition, hint):
            topics[target.topic] = _with_leader(topic, target.partition, hint)
            taken.add(target)
    return (replace(view, nodes=known, topics=topics), taken) if taken else (view, taken)


def _is_newer(topic: Topic, index: int, hint: LeaderHint) -> bool:
    return 0 <= index < len(topic.partitions) and hint.leader_epoch > topic.partitions[index].leader_epoch


def _with_leader(topic: Topic, index: int, hint: LeaderHint) -> Topic:
    partitions = list(topic.partitions)
    partitions[index] = replace(partitions[index], leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
    return replace(topic, partitions=tuple(partitions))
