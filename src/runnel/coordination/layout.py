"""Where each record of the controller stands in the metadata store, in Kafka's ZooKeeper layout.

/brokers/topics/NAME                       topic id and replica assignment
/brokers/topics/NAME/partitions/P/state    leader, leader epoch, ISR
/config/topics/NAME, /config/brokers/ID    dynamic configuration
/config/groups/NAME                        the same, of a group whose name may hold anything: it is percent-encoded
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from runnel.coordination.store import Change
from runnel.machines.controller.record import (
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)

TOPICS = "/brokers/topics"
CONFIGS = "/config"
CLUSTER_ID = "/cluster/id"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(kind: ConfigKind, name: str) -> str:
    return f"{CONFIGS}/{kind.value}/{quote(name, safe='') if kind is ConfigKind.GROUP else name}"


def node_of(record: TopicRecord | PartitionRecord | ConfigRecord) -> tuple[str, bytes]:
    """The path and the value by which `record` is stored."""
    match record:
        case TopicRecord(name, topic_id, assignment):
            partitions = {str(index): replicas for index, replicas in enumerate(assignment)}
            return topic_path(name), _dump(version=3, topic_id=str(topic_id), partitions=partitions)
        case PartitionRecord(topic, partition, leader, leader_epoch, isr):
            return partition_path(topic, partition), _dump(version=1, leader=leader, leader_epoch=leader_epoch, isr=isr)
        case ConfigRecord(kind, name, values):
            return config_path(kind, name), _dump(version=1, config=dict(values))


def record_of(change: Change) -> Record | None:
    """What a change in the store means to the image; None for nodes that are not the image's."""
    match change.path.removeprefix("/").split("/"):
        case ["brokers", "topics", name]:
            value = _load(change)
            return TopicRemoved(name) if value is None else _topic_record(name, value)
        case ["brokers", "topics", topic, "partitions", partition, "state"]:
            if (value := _load(change)) is not None:
                isr = tuple(value["isr"])
                return PartitionRecord(topic, int(partition), value["leader"], value["leader_epoch"], isr)
        case ["config", ("topics" | "brokers" | "groups") as kind, name]:
            value = _load(change)
            name = unquote(name) if kind == ConfigKind.GROUP.value else name
            return ConfigRecord(ConfigKind(kind), name, value["config"] if value else {})
    return None


def _topic_record(name: str, value: Mapping[str, Any]) -> TopicRecord:
    partitions = value["partitions"]
    assignment = tuple(tuple(partitions[str(index)]) for index in range(len(partitions)))
    return TopicRecord(name, UUID(value["topic_id"]), assignment)


def _load(change: Change) -> dict[str, Any] | None:
    return json.loads(change.node.value) if change.node else None


def _dump(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
