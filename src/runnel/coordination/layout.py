"""Where each record of the controller stands in the metadata store, in Kafka's ZooKeeper layout.

/brokers/ids/ID                            a broker that is there, as long as its session (ephemeral)
/brokers/admitted/ID                       the registration of that broker which the controller has dealt with (ours)
/brokers/topics/NAME                       topic id and replica assignment; while it is made or removed in several steps
                                           it is hidden (ours), and has no partitions
/brokers/topics/NAME/partitions/P/state    leader, leader epoch, ISR
/controller                                who is the controller, as long as its session (ephemeral)
/controller_epoch                          how many controllers there have been
/config/topics/NAME, /config/brokers/ID    dynamic configuration
/config/groups/NAME                        the same, of a group whose name may hold anything: it is percent-encoded
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from runnel.coordination.store import Change, Node
from runnel.machines.controller.record import (
    BrokerAdmitted,
    BrokerForgotten,
    BrokerRecord,
    BrokerRemoved,
    ConfigKind,
    ConfigRecord,
    ControllerRecord,
    ControllerRemoved,
    Endpoint,
    PartitionRecord,
    PartitionRemoved,
    Record,
    TopicHidden,
    TopicRecord,
    TopicRemoved,
)

BROKER_IDS = "/brokers/ids"
ADMITTED = "/brokers/admitted"
TOPICS = "/brokers/topics"
CONFIGS = "/config"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(kind: ConfigKind, name: str) -> str:
    return f"{CONFIGS}/{kind.value}/{quote(name, safe='') if kind is ConfigKind.GROUP else name}"


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def admitted_path(broker_id: int) -> str:
    return f"{ADMITTED}/{broker_id}"


Stored = TopicRecord | TopicHidden | PartitionRecord | ConfigRecord | BrokerRecord | BrokerAdmitted | ControllerRecord


def node_of(record: Stored) -> tuple[str, bytes]:
    """The path and the value by which `record` is stored."""
    match record:
        case TopicRecord(name):
            return topic_path(name), _topic_value(record)
        case TopicHidden(name, topic_id):
            return topic_path(name), _dump(version=3, topic_id=str(topic_id), partitions={}, hidden=True)
        case PartitionRecord(topic, partition):
            return partition_path(topic, partition), _partition_value(record)
        case ConfigRecord(kind, name, values):
            return config_path(kind, name), _dump(version=1, config=dict(values))
        case BrokerRecord(broker_id):
            return broker_path(broker_id), _broker_value(record)
        case BrokerAdmitted(broker_id, epoch, incarnation):
            return admitted_path(broker_id), _dump(version=1, epoch=epoch, incarnation=incarnation)
        case ControllerRecord(broker_id, epoch):
            return CONTROLLER, _dump(version=1, brokerid=broker_id, epoch=epoch)


def record_of(change: Change) -> Record | None:
    """What a change in the store means to the image; None for nodes that are not the image's."""
    match change.path.removeprefix("/").split("/"):
        case ["brokers", "topics", name]:
            return _topic_record(name, value) if (value := _load(change)) else TopicRemoved(name)
        case ["brokers", "topics", topic, "partitions", partition, "state"]:
            index = int(partition)
            value = _load(change)
            return _partition_record(topic, index, value) if value else PartitionRemoved(topic, index)
        case ["config", ("topics" | "brokers" | "groups") as kind, name]:
            value = _load(change)
            name = unquote(name) if kind == ConfigKind.GROUP.value else name
            return ConfigRecord(ConfigKind(kind), name, value["config"] if value else {})
        case ["brokers", "ids", broker_id]:
            broker = int(broker_id)
            return _broker_record(broker, change.node) if change.node else BrokerRemoved(broker)
        case ["brokers", "admitted", broker_id]:
            broker = int(broker_id)
            value = _load(change)
            if value is None:
                return BrokerForgotten(broker)
            return BrokerAdmitted(broker, value["epoch"], value.get("incarnation", ""))
        case ["controller"]:
            value = _load(change)
            return ControllerRecord(value["brokerid"], value["epoch"]) if value else ControllerRemoved()
    return None


# --- topics and partitions


def _topic_value(record: TopicRecord) -> bytes:
    return _dump(
        version=3,
        topic_id=str(record.topic_id),
        partitions={str(index): replicas for index, replicas in enumerate(record.assignment)},
        adding_replicas={str(index): replicas for index, replicas in record.adding.items()},
        removing_replicas={str(index): replicas for index, replicas in record.removing.items()},
    )


def _topic_record(name: str, value: Mapping[str, Any]) -> TopicRecord | TopicHidden:
    if value.get("hidden"):
        return TopicHidden(name, UUID(value["topic_id"]))
    partitions = value["partitions"]
    assignment = tuple(tuple(partitions[str(index)]) for index in range(len(partitions)))
    # Topics that were made before partitions could be reassigned have no such fields.
    adding, removing = value.get("adding_replicas", {}), value.get("removing_replicas", {})
    return TopicRecord(name, UUID(value["topic_id"]), assignment, _by_partition(adding), _by_partition(removing))


def _by_partition(value: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(replicas) for index, replicas in value.items()}


def _partition_value(record: PartitionRecord) -> bytes:
    # What is ours and not Kafka's is there only where there is something to say.
    ours = {"elr": record.elr, "last_known_elr": record.last_known_elr}
    said = {name: brokers for name, brokers in ours.items() if brokers}
    return _dump(version=1, leader=record.leader, leader_epoch=record.leader_epoch, isr=record.isr, **said)


def _partition_record(topic: str, partition: int, value: Mapping[str, Any]) -> PartitionRecord:
    isr, elr, last_known_elr = (tuple(value.get(name, ())) for name in ("isr", "elr", "last_known_elr"))
    return PartitionRecord(topic, partition, value["leader"], value["leader_epoch"], isr, elr, last_known_elr)


# --- brokers


def _broker_value(record: BrokerRecord) -> bytes:
    first = record.endpoints[0] if record.endpoints else Endpoint("", "", -1, "")
    return _dump(
        version=5,
        host=first.host,
        port=first.port,
        endpoints=[f"{end.listener}://{_bracketed(end.host)}:{end.port}" for end in record.endpoints],
        listener_security_protocol_map={end.listener: end.security_protocol for end in record.endpoints},
        rack=record.rack,
        features={},
        is_clean=record.is_clean,
        is_stopping=record.is_stopping,
        incarnation=record.incarnation,
    )


def _broker_record(broker_id: int, node: Node) -> BrokerRecord:
    value = json.loads(node.value)
    protocols = value["listener_security_protocol_map"]
    endpoints = []
    for text in value["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocols[listener]))
    is_clean, is_stopping = value.get("is_clean", False), value.get("is_stopping", False)
    incarnation = value.get("incarnation", "")
    return BrokerRecord(
        broker_id, node.created, tuple(endpoints), value.get("rack"), is_clean, is_stopping, incarnation
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _load(change: Change) -> dict[str, Any] | None:
    return json.loads(change.node.value) if change.node else None


def _dump(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
