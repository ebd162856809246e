"""The paths and values of the controller's records in the metadata store, in Kafka's ZooKeeper layout.

/brokers/ids/ID                            a live broker, as long as its session (ephemeral)
/brokers/admitted/ID                       the registration of that broker that the controller has handled (ours)
/brokers/topics/NAME                       topic id and replica assignment; while the topic is created or removed in
                                           several steps it is hidden (ours) and has no partitions
/brokers/topics/NAME/partitions/P/state    leader, leader epoch, ISR
/brokers/topic_ids/ID                      the name of the topic with this id, as long as it exists (ours): the versions
                                           of the nodes above begin again with the next topic of that name
/cluster/id                                the name of the cluster
/cluster/decoy_secret                      a random secret of its brokers (ours)
/controller                                the controller, as long as its session (ephemeral)
/controller_epoch                          the number of controllers so far
/config/topics/NAME, /config/brokers/ID    dynamic configs
/config/groups/NAME                        the same for a group, whose name may hold any character: percent-encoded
/config/users/NAME                         quotas and SCRAM credentials of a user, the name percent-encoded
/config/users/NAME/clients/ID              quotas of a client of a user; the node of the user exists as well
/config/clients/ID, /config/ips/ADDRESS    quotas of a client and of an address

ACLs and delegation tokens are in `security_layout`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from tailrace.coordination.security_layout import acl_path, acl_value, security_record, token_path, token_value
from tailrace.coordination.store import Change, Node
from tailrace.machines.controller.entity import decode_name, encode_name
from tailrace.machines.controller.record import (
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
from tailrace.machines.controller.security_record import AclRecord, TokenRecord

BROKER_IDS = "/brokers/ids"
ADMITTED = "/brokers/admitted"
TOPICS = "/brokers/topics"
TOPIC_IDS = "/brokers/topic_ids"
CONFIGS = "/config"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
DECOY_SECRET = "/cluster/decoy_secret"  # noqa: S105  a path
PRODUCER_ID_BLOCK = "/latest_producer_id_block"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_id_path(topic_id: UUID) -> str:
    return f"{TOPIC_IDS}/{topic_id}"


def topic_id_node(topic_id: UUID, name: str) -> tuple[str, bytes]:
    """Return the path and the value of the node that exists as long as a topic does."""
    return topic_id_path(topic_id), _dump(version=1, name=name)


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(kind: ConfigKind, name: str) -> str:
    match kind:
        case ConfigKind.GROUP:
            return f"{CONFIGS}/{kind.value}/{encode_name(name)}"
        case ConfigKind.USER_CLIENT:
            user, client_id = name.split("/")
            return f"{config_path(ConfigKind.USER, user)}/clients/{client_id}"
    return f"{CONFIGS}/{kind.value}/{name}"


def topic_paths(name: str, topic_id: UUID, partitions: Iterable[int]) -> list[str]:
    """Return the paths of all nodes of a topic, children before their parent, as ZooKeeper deletes them."""
    states = [partition_path(name, partition) for partition in partitions]
    return [*states, topic_path(name), topic_id_path(topic_id), config_path(ConfigKind.TOPIC, name)]


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def admitted_path(broker_id: int) -> str:
    return f"{ADMITTED}/{broker_id}"


Stored = (
    TopicRecord
    | TopicHidden
    | PartitionRecord
    | ConfigRecord
    | BrokerRecord
    | BrokerAdmitted
    | ControllerRecord
    | AclRecord
    | TokenRecord
)


def node_of(record: Stored) -> tuple[str, bytes]:
    """Return the path and the value with which `record` is stored."""
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
        case AclRecord(pattern):
            return acl_path(pattern), _dump(**acl_value(record))
        case TokenRecord(token_id):
            return token_path(token_id), _dump(**token_value(record))


def record_of(change: Change) -> Record | None:
    """Return the record that a change in the store means, or None for nodes outside the image."""
    names = change.path.removeprefix("/").split("/")
    match names:
        case ["brokers", "topics", name]:
            return _topic_record(name, value) if (value := _load(change)) else TopicRemoved(name)
        case ["brokers", "topics", topic, "partitions", partition, "state"]:
            index = int(partition)
            value = _load(change)
            return _partition_record(topic, index, value) if value else PartitionRemoved(topic, index)
        case ["config", ("topics" | "brokers" | "groups" | "users" | "clients" | "ips") as folder, name]:
            kind = ConfigKind(folder)
            return _config_record(kind, decode_name(name) if kind is ConfigKind.GROUP else name, change)
        case ["config", "users", user, "clients", client_id]:
            return _config_record(ConfigKind.USER_CLIENT, f"{user}/{client_id}", change)
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
        case ["kafka-acl" | "kafka-acl-extended" | "delegation_token", *_]:
            return security_record(names, change)
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
    # Topics created before partitions could be reassigned lack these fields.
    adding, removing = value.get("adding_replicas", {}), value.get("removing_replicas", {})
    return TopicRecord(name, UUID(value["topic_id"]), assignment, _by_partition(adding), _by_partition(removing))


def _by_partition(value: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(replicas) for index, replicas in value.items()}


def _partition_value(record: PartitionRecord) -> bytes:
    # Fields that Kafka does not have are written only if they are not empty.
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


def _config_record(kind: ConfigKind, name: str, change: Change) -> ConfigRecord:
    value = _load(change)
    return ConfigRecord(kind, name, value["config"] if value else {})


def _load(change: Change) -> dict[str, Any] | None:
    return json.loads(change.node.value) if change.node else None


def _dump(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
