"""Cases about the cluster: configs, brokers, ACLs, users, quotas and delegation tokens."""

from __future__ import annotations

from typing import Any

from tests.authorization.case import Case
from tests.authorization.wire import Wire
from tests.authorization.world import World

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, NO_TYPE = 2, 4, 8, 16, 32, 64
_TOPICS = [{"name": "t"}, {"name": "other"}, {"name": "absent"}]
_NAMES = {TOPIC: ("t", "other", "absent"), BROKER: ("1", ""), GROUP: ("g", "g2"), CLIENT_METRICS: ("m",)}
_CONFIGS = {
    TOPIC: ("retention.ms", "100000"),
    BROKER: ("log.retention.ms", "100000"),
    GROUP: ("consumer.heartbeat.interval.ms", "5000"),
    CLIENT_METRICS: ("interval.ms", "100000"),
}
_KINDS = {TOPIC: "topics", BROKER: "brokers", GROUP: "groups", CLIENT_METRICS: "client metrics"}
_DENIED = (
    "ALL TOPIC *, DENY DESCRIBE_CONFIGS TOPIC t",
    "ALL TOPIC *, DENY ALTER_CONFIGS TOPIC t",
    "ALTER_CONFIGS TOPIC absent",
    "DESCRIBE_CONFIGS TOPIC absent",
    "ALL CLUSTER kafka-cluster, DENY ALTER_CONFIGS CLUSTER kafka-cluster",
    "ALL GROUP *, DENY DESCRIBE_CONFIGS GROUP g",
)


def _describe(kind: int) -> Case:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for name in _NAMES[kind]]
    return Case("DescribeConfigs", 4, _KINDS[kind], {"resources": resources}, _DENIED)


def _alter(kind: int) -> Case:
    name, value = _CONFIGS[kind]
    # Apache Kafka does not let this request remove min.insync.replicas from the default of all brokers.
    named = [resource for resource in _NAMES[kind] if resource]
    resources = [
        {"resource_type": kind, "resource_name": resource, "configs": [{"name": name, "value": value}]}
        for resource in named
    ]
    return Case("AlterConfigs", 2, _KINDS[kind], {"resources": resources, "validate_only": True}, _DENIED)


def _alter_incrementally(kind: int) -> Case:
    name, value = _CONFIGS[kind]
    config = {"name": name, "value": value, "config_operation": 0}
    resources = [{"resource_type": kind, "resource_name": resource, "configs": [config]} for resource in _NAMES[kind]]
    return Case("IncrementalAlterConfigs", 1, _KINDS[kind], {"resources": resources, "validate_only": True}, _DENIED)


def _expire(world: World, user: Wire, response: Any) -> None:
    """Remove a token that a request created."""
    if response.error_code == 0:
        fields = {"hmac": response.hmac, "expiry_time_period_ms": -1}
        owner = "owner" if response.principal_name == "owner" else user.user
        world.until(lambda: world.ask("ExpireDelegationToken", 2, fields, owner).error_code)
        world.until(lambda: len(world.ask("DescribeDelegationToken", 3, {"owners": None}).tokens) > 1)


_ACL = {
    "resource_type": 2,
    "resource_name": "acl",
    "resource_pattern_type": 3,
    "principal": "User:nobody",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_ACL_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "none of them",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_QUOTA = {
    "entity": [{"entity_type": "user", "entity_name": "nobody"}],
    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
}
_TOKENS = (
    "DESCRIBE DELEGATION_TOKEN absent",
    "DESCRIBE_TOKENS USER *",
    "CREATE_TOKENS USER *",
    "CREATE_TOKENS USER User:other",
    "CREATE_TOKENS PREFIXED USER User:",
    "ALL USER *",
)

CASES = [
    Case("Envelope", 0, "on a listener of clients",
         {"request_data": b"", "request_principal": None, "client_host_address": b""}),
    Case("ApiVersions", 3, "all", {"client_software_name": "test", "client_software_version": "1"}),
    *(_describe(kind) for kind in _NAMES),
    Case("DescribeConfigs", 4, "broker loggers",
         {"resources": [{"resource_type": BROKER_LOGGER, "resource_name": "1", "configuration_keys": None}]}),
    *(_alter(kind) for kind in _NAMES),
    *(_alter_incrementally(kind) for kind in _NAMES),
    Case("IncrementalAlterConfigs", 1, "broker loggers",
         {"resources": [{"resource_type": BROKER_LOGGER, "resource_name": "1", "configs": []}], "validate_only": True}),
    Case("ListConfigResources", 0, "client metrics", {}),
    Case("ListConfigResources", 1, "topics and groups", {"resource_types": [TOPIC, GROUP]}),
    Case("DescribeCluster", 1, "with operations", {"include_cluster_authorized_operations": True},
         ("ALL CLUSTER kafka-cluster, DENY DESCRIBE CLUSTER kafka-cluster",
          "ALL CLUSTER kafka-cluster, DENY ALTER CLUSTER kafka-cluster")),
    Case("DescribeCluster", 0, "without operations", {}),
    Case("DescribeCluster", 1, "controllers", {"endpoint_type": 2, "include_cluster_authorized_operations": True}),
    Case("DescribeLogDirs", 4, "all", {"topics": None}),
    Case("DescribeLogDirs", 1, "of a topic", {"topics": [{"topic": "t", "partitions": [0]}]}),
    Case("AlterReplicaLogDirs", 2, "to an unknown folder",
         {"dirs": [{"path": "/unknown", "topics": [{"name": "t", "partitions": [0]}]}]}),
    Case("ElectLeaders", 2, "of a partition", {"topic_partitions": [{"topic": "t", "partitions": [0]}]}),
    Case("ElectLeaders", 0, "of a partition", {"topic_partitions": [{"topic": "t", "partitions": [0]}]}),
    Case("AlterPartitionReassignments", 0, "cancel",
         {"timeout_ms": 1000, "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}]}),
    Case("ListPartitionReassignments", 0, "all", {"timeout_ms": 1000, "topics": None}),
    Case("UnregisterBroker", 0, "an unknown one", {"broker_id": 99}),
    Case("DescribeAcls", 3, "none", _ACL_FILTER),
    Case("CreateAcls", 3, "one", {"creations": [_ACL]}),
    Case("DeleteAcls", 3, "none", {"filters": [_ACL_FILTER]}),
    Case("DescribeClientQuotas", 1, "of a user",
         {"components": [{"entity_type": "user", "match_type": 0, "match": "nobody"}], "strict": True}),
    Case("AlterClientQuotas", 1, "of a user", {"entries": [_QUOTA], "validate_only": True}),
    Case("DescribeUserScramCredentials", 0, "of a user", {"users": [{"name": "nobody"}]}),
    Case("DescribeUserScramCredentials", 0, "of all users", {"users": []}),
    Case("AlterUserScramCredentials", 0, "of an absent user", {"deletions": [{"name": "nobody", "mechanism": 1}]}),
    Case("CreateDelegationToken", 3, "for the client", {"max_lifetime_ms": -1, "owner_principal_type": None,
                                                        "owner_principal_name": None}, _TOKENS, _expire),
    Case("CreateDelegationToken", 3, "for another user",
         {"owner_principal_type": "User", "owner_principal_name": "owner", "max_lifetime_ms": -1}, _TOKENS, _expire),
    Case("RenewDelegationToken", 2, "an unknown one", {"hmac": b"unknown", "renew_period_ms": -1}, _TOKENS),
    Case("ExpireDelegationToken", 2, "an unknown one", {"hmac": b"unknown", "expiry_time_period_ms": -1}, _TOKENS),
    Case("DescribeDelegationToken", 3, "all", {"owners": None}, _TOKENS),
    Case("DescribeDelegationToken", 3, "of a user", {"owners": [{"principal_type": "User", "principal_name": "owner"}]},
         _TOKENS),
]  # fmt: skip
