"""`tailrace cluster describe`: the brokers, the features and the unhealthy partitions of a cluster."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tailrace.cli.option import broker_options, json_option, run_with_cluster
from tailrace.cli.output import is_terminal, write_json, write_line, write_table

if TYPE_CHECKING:
    from tailrace.client.cluster import Cluster
    from tailrace.client.metadata import ClusterView, Node, Partition

_OFFLINE = "offline"
_UNDER_REPLICATED = "under-replicated"


class _Unhealthy(NamedTuple):
    """A partition without a leader, or one with replicas that are not in sync."""

    topic: str
    partition: "Partition"
    problem: str


class _Broker(NamedTuple):
    """A broker with the numbers of partitions that it leads and holds."""

    node: "Node"
    is_controller: bool
    leader_count: int
    replica_count: int


@click.command()
@json_option
@broker_options
def describe(as_json: bool, bootstrap_server: str | None, command_config: Path | None) -> None:
    """Show the brokers, features and unhealthy partitions of any cluster.

    A partition is offline if it has no leader, and under-replicated if it has one and a replica is not in sync. Topics
    that the user may not describe are left out.
    """
    view, features = run_with_cluster(bootstrap_server, command_config, _ask)
    if as_json:
        write_json(_described(view, features))
    else:
        _write(view, features)


async def _ask(cluster: "Cluster") -> "tuple[ClusterView, Mapping[str, int]]":
    connection = await cluster.controller()
    return await cluster.refresh(None), connection.finalized_features


def _find_unhealthy(view: "ClusterView") -> list[_Unhealthy]:
    from tailrace.client.metadata import NO_LEADER

    found = []
    for name, topic in sorted(view.topics.items()):
        for partition in topic.partitions:
            if partition.leader_id == NO_LEADER:
                found.append(_Unhealthy(name, partition, _OFFLINE))
            elif len(partition.in_sync_replicas) < len(partition.replicas):
                found.append(_Unhealthy(name, partition, _UNDER_REPLICATED))
    return found


def _brokers(view: "ClusterView") -> list[_Broker]:
    partitions = [partition for topic in view.topics.values() for partition in topic.partitions]
    leaders = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replicas)
    return [
        _Broker(node, node_id == view.controller_id, leaders[node_id], replicas[node_id])
        for node_id, node in sorted(view.nodes.items())
    ]


def _count_partitions(view: "ClusterView") -> int:
    return sum(len(topic.partitions) for topic in view.topics.values())


# --- output


def _described(view: "ClusterView", features: Mapping[str, int]) -> dict[str, Any]:
    unhealthy = _find_unhealthy(view)
    return {
        "cluster_id": view.cluster_id,
        "controller": view.controller_id,
        "brokers": [
            {
                "id": broker.node.node_id,
                "address": str(broker.node.address),
                "rack": broker.node.rack,
                "leaders": broker.leader_count,
                "replicas": broker.replica_count,
            }
            for broker in _brokers(view)
        ],
        "features": dict(sorted(features.items())),
        "topics": len(view.topics),
        "partitions": _count_partitions(view),
        "under_replicated": _described_partitions(unhealthy, _UNDER_REPLICATED),
        "offline": _described_partitions(unhealthy, _OFFLINE),
    }


def _described_partitions(unhealthy: Iterable[_Unhealthy], problem: str) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.topic,
            "partition": each.partition.index,
            "leader": each.partition.leader_id,
            "replicas": list(each.partition.replicas),
            "isr": list(each.partition.in_sync_replicas),
        }
        for each in unhealthy
        if each.problem == problem
    ]


def _write(view: "ClusterView", features: Mapping[str, int]) -> None:
    brokers, unhealthy = _brokers(view), _find_unhealthy(view)
    counts = Counter(each.problem for each in unhealthy)
    write_line(
        f"cluster {view.cluster_id} · {_count(len(brokers), 'broker')} · controller {view.controller_id}"
        f" · {_count(len(view.topics), 'topic')} · {_count(_count_partitions(view), 'partition')}"
        f" · {counts[_UNDER_REPLICATED]} under-replicated · {counts[_OFFLINE]} offline"
    )
    if is_terminal():
        _write_tables(brokers, features, unhealthy)
        return
    for node, is_controller, leader_count, replica_count in brokers:
        role = " controller" if is_controller else ""
        write_line(
            f"broker {node.node_id} address {node.address} rack {node.rack or '-'} leaders {leader_count}"
            f" replicas {replica_count}{role}"
        )
    for name, level in sorted(features.items()):
        write_line(f"feature {name} level {level}")
    for topic, partition, problem in unhealthy:
        write_line(
            f"partition {topic}-{partition.index} {problem} leader {_leader(partition)}"
            f" replicas {_ids(partition.replicas)} isr {_ids(partition.in_sync_replicas)}"
        )


def _write_tables(brokers: Sequence[_Broker], features: Mapping[str, int], unhealthy: Sequence[_Unhealthy]) -> None:
    rows = [
        (each.node.node_id, each.node.address, each.node.rack or "-", each.leader_count, each.replica_count, role)
        for each in brokers
        for role in ["controller" if each.is_controller else ""]
    ]
    write_table(("broker", "address", "rack", "leaders", "replicas", "role"), rows)
    write_table(("feature", "level"), sorted(features.items()))
    if unhealthy:
        write_table(
            ("partition", "problem", "leader", "replicas", "in sync"),
            [
                (
                    f"{topic}-{partition.index}",
                    problem,
                    _leader(partition),
                    _ids(partition.replicas),
                    _ids(partition.in_sync_replicas),
                )
                for topic, partition, problem in unhealthy
            ],
        )


def _leader(partition: "Partition") -> str:
    from tailrace.client.metadata import NO_LEADER

    return "-" if partition.leader_id == NO_LEADER else str(partition.leader_id)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "-"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
