"""Every advertised version of every API answers a plain request, encoded and decoded by kafka-python.

Clients use the whole range, from aiokafka's oldest versions to the newest of Java's; a field
that has no place in an old version must not break the answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.clients.ask.asker import Asker, creatable, filled, produce_fields
from tests.clients.ask.fetch import fetch_fields
from tests.clients.ask.group import new_group
from tests.clients.ask.group_offset import commit, commit_fields, shared_topic
from tests.clients.ask.security import REFUSED, SENSIBLE
from tests.clients.ask.transaction_step import sensible_fields
from tests.clients.raw import batch, message_class
from tests.eventual import eventually

TOPIC = 2
NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    34: "AlterReplicaLogDirs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    49: "AlterClientQuotas",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    60: "DescribeCluster",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
}
# ConsumerGroupHeartbeat and ConsumerGroupDescribe, which other clients send in `test_new_group_protocol`; and
# UnregisterBroker, which needs a broker that is gone; and the four APIs of delegation tokens.
BEYOND_KAFKA_PYTHON = {38, 39, 40, 41, 64, 68, 69}
BETWEEN_BROKERS = {58}  # Envelope, which the listener of brokers has, here also that of clients
OF_THE_CLUSTER = {"DescribeCluster", "ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"}
OF_TRANSACTIONS = {
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit"),
    *("DescribeProducers", "DescribeTransactions", "ListTransactions"),
}
# Nobody is a member here, and who asks for too short a session does not become one; all in one answer, without waiting.
TOLD_TO_STRANGERS = {"JoinGroup": {26}, "SyncGroup": {25}, "Heartbeat": {25}, "LeaveGroup": {25}}


def _fields(asker: Asker, api: str, version: int) -> dict[str, Any]:
    """The fields of a request that must succeed; those that a version lacks are left out on the wire."""
    if api in SENSIBLE:
        return SENSIBLE[api]
    if api in {"ApiVersions", "FindCoordinator", "InitProducerId", "CreateTopics", *OF_THE_CLUSTER}:
        return _without_topic(api)
    if api in TOLD_TO_STRANGERS or api in {"DescribeGroups", "ListGroups", "DeleteGroups"}:
        return _of_group(asker, api, version)
    topic = filled(asker, 2)
    if api in {"OffsetCommit", "OffsetFetch", "OffsetDelete"}:
        return _of_offsets(asker, api, version, topic)
    if api in OF_TRANSACTIONS:
        return sensible_fields(asker, api, version, topic)
    return _of_topic(asker, api, version, topic)


def _of_topic(asker: Asker, api: str, version: int, topic: str) -> dict[str, Any]:
    topic_id = asker.topic_id(topic)
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "Produce": lambda: _by_id_too(produce_fields(topic, batch(), -1, 0), "topic_data", topic_id),
        "Fetch": lambda: _by_id_too(fetch_fields(topic, 0), "topics", topic_id),
        "ListOffsets": lambda: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": topic, "partitions": [_partition(current_leader_epoch=0, timestamp=0)]}],
            "timeout_ms": 1000,
        },
        "Metadata": lambda: {
            "topics": [{"name": topic, "topic_id": uuid.UUID(int=0)}],
            "allow_auto_topic_creation": False,
        },
        "DeleteTopics": lambda: {
            **(
                {"topics": [{"name": topic, "topic_id": uuid.UUID(int=0)}]}
                if version >= 6
                else {"topic_names": [topic]}
            ),
            "timeout_ms": 10_000,
        },
        "DeleteRecords": lambda: {
            "topics": [{"name": topic, "partitions": [_partition(offset=1)]}],
            "timeout_ms": 10_000,
        },
        "OffsetForLeaderEpoch": lambda: {
            "replica_id": -1,
            "topics": [
                {"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
        "DescribeConfigs": lambda: {
            "resources": [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}],
            "include_synonyms": True,
            "include_documentation": True,
        },
        "AlterConfigs": lambda: _alter(topic, {"name": "retention.ms", "value": "5000"}),
        "IncrementalAlterConfigs": lambda: _alter(
            topic, {"name": "retention.ms", "config_operation": 0, "value": "5000"}
        ),
        "DescribeLogDirs": lambda: {"topics": [{"topic": topic, "partitions": [0]}]},
        "CreatePartitions": lambda: {
            "topics": [{"name": topic, "count": 2, "assignments": None}],
            "timeout_ms": 10_000,
            "validate_only": False,
        },
        "ListConfigResources": lambda: {"resource_types": []},
        "DescribeTopicPartitions": lambda: {
            "topics": [{"name": topic}],
            "response_partition_limit": 100,
            "cursor": None,
        },
    }
    return makers[api]()


def _without_topic(api: str) -> dict[str, Any]:
    fields: dict[str, dict[str, Any]] = {
        "ApiVersions": {"client_software_name": "test", "client_software_version": "1"},
        "FindCoordinator": {"key": "a", "key_type": 0, "coordinator_keys": ["a"]},
        "InitProducerId": {"transactional_id": None, "transaction_timeout_ms": 60_000},
        "CreateTopics": {
            "topics": [creatable(f"versions-{uuid.uuid4().hex[:12]}")],
            "timeout_ms": 10_000,
            "validate_only": False,
        },
        "DescribeCluster": {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        "ElectLeaders": {"election_type": 0, "topic_partitions": None, "timeout_ms": 10_000},
        "AlterPartitionReassignments": {"timeout_ms": 10_000, "topics": []},
        "ListPartitionReassignments": {"timeout_ms": 10_000, "topics": None},
    }
    return fields[api]


def _of_group(asker: Asker, api: str, version: int) -> dict[str, Any]:
    group = new_group(asker)
    commit(asker, group, shared_topic(asker))
    member = {"group_id": group, "member_id": "nobody"}
    extra = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "JoinGroup": lambda: {
            **member,
            "session_timeout_ms": 1,
            "rebalance_timeout_ms": 1,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        "SyncGroup": lambda: {**member, "generation_id": 1, "assignments": [], **extra},
        "Heartbeat": lambda: {**member, "generation_id": 1},
        "LeaveGroup": lambda: member if version < 3 else {"group_id": group, "members": [{"member_id": "nobody"}]},
        "DescribeGroups": lambda: {"groups": [group], "include_authorized_operations": True},
        "ListGroups": lambda: {"states_filter": [], "types_filter": []},
        "DeleteGroups": lambda: {"groups_names": [group]},
    }
    return makers[api]()


def _of_offsets(asker: Asker, api: str, version: int, topic: str) -> dict[str, Any]:
    topic_id = asker.topic_id(topic)
    group = new_group(asker)
    commit(asker, group, topic)
    if api == "OffsetCommit":
        fields = commit_fields(group, topic)
        for one in fields["topics"]:
            one["topic_id"] = topic_id
        return fields
    if api == "OffsetDelete":
        return {"group_id": group, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    topics = [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}]
    if version < 8:
        return {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    return {"groups": [{"group_id": group, "topics": topics}], "require_stable": False}


def _partition(**fields: Any) -> dict[str, Any]:
    return {"partition_index": 0, **fields}


def _alter(topic: str, config: dict[str, Any]) -> dict[str, Any]:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [config]}
    return {"resources": [resource], "validate_only": False}


def _by_id_too(fields: dict[str, Any], name: str, topic_id: uuid.UUID) -> dict[str, Any]:
    return {**fields, name: [{**topic, "topic_id": topic_id} for topic in fields[name]]}


def _error_codes(value: Any) -> Iterator[int]:
    """Every error code anywhere in an answer."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("error_code"):
                yield inner
            else:
                yield from _error_codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _error_codes(inner)


def _codes(asker: Asker, api: str, version: int, fields: dict[str, Any]) -> list[int] | str:
    answer = asker.ask(api, version, **fields)
    return answer if isinstance(answer, str) else sorted(set(_error_codes(answer)))


def _is_settled(codes: list[int] | str) -> bool:
    """A broker that has just started may still be loading producer ids (14) or making internal topics (15)."""
    return not {14, 15} & set(codes)


@pytest.fixture(scope="module")
def advertised(broker_bootstrap: str) -> dict[int, tuple[int, int]]:
    """The versions by API key."""
    answer = Asker(broker_bootstrap).fields("ApiVersions", 0)
    return {api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]}


@pytest.mark.parametrize("key", sorted(NAMES), ids=NAMES.get)
def test_every_version_answers(key: int, broker_bootstrap: str, advertised: dict[int, tuple[int, int]]) -> None:
    """No connection closed, no error code."""
    asker = Asker(broker_bootstrap)
    low, high = advertised[key]
    if NAMES[key] == "Produce":
        low = 3  # 0 to 2 are advertised for old clients' sake, and not served
    known = message_class(NAMES[key] + "Request").max_version
    seen = {}
    for version in range(low, min(high, known) + 1):
        fields = _fields(asker, NAMES[key], version)
        seen[version] = eventually(partial(_codes, asker, NAMES[key], version, fields), _is_settled)
    expected = {**TOLD_TO_STRANGERS, **REFUSED}.get(NAMES[key], set())
    wrong = {version: codes for version, codes in seen.items() if set(codes) - {0} != expected}
    assert not wrong
    assert seen


def test_every_advertised_api_is_tried(advertised: dict[int, tuple[int, int]]) -> None:
    """An API that appears in the broker must appear here (Kafka has more than this suite needs)."""
    from tests.clients.conftest import TARGET

    if TARGET == "kafka":
        pytest.skip("Kafka has APIs that are not in this suite yet")
    assert set(advertised) == set(NAMES) | BEYOND_KAFKA_PYTHON | BETWEEN_BROKERS
