"""Records as nodes of the store, and back."""

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.base.sentinel import NO_BROKER
from tailrace.coordination.layout import (
    CLUSTER_ID,
    CONTROLLER_EPOCH,
    DECOY_SECRET,
    PRODUCER_ID_BLOCK,
    Stored,
    node_of,
    record_of,
)
from tailrace.coordination.store import Change, Node
from tailrace.machines.authorization.vocabulary import Operation, PatternType, Permission, Resource
from tailrace.machines.controller.entity import entity_name
from tailrace.machines.controller.record import (
    CLUSTER_DEFAULT,
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
from tailrace.machines.controller.security_record import AclEntry, AclPattern, AclRecord, TokenRecord, TokenRemoved

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda name: name not in {".", ".."})
BROKERS = st.integers(0, 2**31 - 1)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)
SOME_REPLICAS = st.lists(BROKERS, max_size=3, unique=True).map(tuple)
MOVES = st.dictionaries(st.integers(0, 11), REPLICAS, max_size=3)
TEXTS = st.text(max_size=10)
HOSTS = st.sampled_from(["", "localhost", "10.0.0.1", "::1", "fe80::1%eth0"])
ENDPOINTS = st.lists(
    st.builds(Endpoint, NAMES, HOSTS, st.integers(0, 65_535), st.sampled_from(["PLAINTEXT", "SASL_SSL"])),
    max_size=3,
    unique_by=lambda endpoint: endpoint.listener,
).map(tuple)
CONFIGS = st.dictionaries(TEXTS, TEXTS, min_size=1)
EPOCHS = st.integers(0, 2**31 - 1)
ANY_NAMES = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from([".", "..", "...", "/", "a/b", "//", "*", "<default>", "%2E", "a b", "~", "ü", "\0", "clients"]),
)
ENTITIES = st.one_of(st.none(), ANY_NAMES)
PRINCIPALS = ANY_NAMES.map("User:{}".format)
TIMESTAMPS = st.integers(0, 2**63 - 1)
ENTRIES = st.builds(
    AclEntry,
    PRINCIPALS,
    st.sampled_from(["*", "10.0.0.1", "::1"]),
    st.sampled_from(Operation),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)

STORED = st.one_of(
    st.builds(TopicRecord, NAMES, st.uuids(), st.lists(REPLICAS, min_size=1, max_size=12).map(tuple), MOVES, MOVES),
    st.builds(TopicHidden, NAMES, st.uuids()),
    st.builds(
        PartitionRecord,
        NAMES,
        st.integers(0, 10_000),
        st.one_of(BROKERS, st.just(NO_BROKER)),
        EPOCHS,
        SOME_REPLICAS,
        SOME_REPLICAS,
        SOME_REPLICAS,
    ),
    st.builds(
        BrokerRecord,
        BROKERS,
        st.just(7),
        ENDPOINTS,
        st.one_of(st.none(), TEXTS),
        st.booleans(),
        st.booleans(),
        TEXTS,
    ),
    st.builds(BrokerAdmitted, BROKERS, st.integers(0, 2**63 - 1)),
    st.builds(ControllerRecord, BROKERS, EPOCHS),
    st.builds(
        ConfigRecord,
        st.sampled_from([ConfigKind.TOPIC, ConfigKind.BROKER]),
        st.one_of(NAMES, st.just(CLUSTER_DEFAULT)),
        CONFIGS,
    ),
    st.builds(ConfigRecord, st.just(ConfigKind.GROUP), ANY_NAMES, CONFIGS),
    st.builds(
        ConfigRecord,
        st.sampled_from([ConfigKind.USER, ConfigKind.CLIENT, ConfigKind.IP]),
        ENTITIES.map(entity_name),
        CONFIGS,
    ),
    st.builds(ConfigRecord, st.just(ConfigKind.USER_CLIENT), st.builds(entity_name, ENTITIES, ENTITIES), CONFIGS),
    st.builds(
        AclRecord,
        st.builds(
            AclPattern,
            st.sampled_from(Resource),
            st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
            ANY_NAMES,
        ),
        st.sets(ENTRIES, min_size=1, max_size=3).map(lambda entries: tuple(sorted(entries))),
    ),
    st.builds(
        TokenRecord,
        ANY_NAMES,
        PRINCIPALS,
        PRINCIPALS,
        st.lists(PRINCIPALS, max_size=3).map(tuple),
        TIMESTAMPS,
        TIMESTAMPS,
        TIMESTAMPS,
    ),
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(record=STORED, version=st.integers(0, 9))
def test_a_record_comes_back_as_it_was(record: Stored, version: int) -> None:
    path, value = node_of(record)
    assert record_of(Change(path, Node(value, version, created=7))) == record
    assert is_valid_in_zookeeper(path)


def is_valid_in_zookeeper(path: str) -> bool:
    return path.startswith("/") and path.isprintable() and not {"", ".", ".."} & set(path[1:].split("/"))


@pytest.mark.parametrize(
    ("path", "record"),
    [
        ("/brokers/topics/t", TopicRemoved("t")),
        ("/brokers/topics/t/partitions/0/state", PartitionRemoved("t", 0)),
        ("/config/topics/t", ConfigRecord(ConfigKind.TOPIC, "t", {})),
        ("/config/brokers/<default>", ConfigRecord(ConfigKind.BROKER, CLUSTER_DEFAULT, {})),
        ("/brokers/ids/3", BrokerRemoved(3)),
        ("/brokers/admitted/3", BrokerForgotten(3)),
        ("/controller", ControllerRemoved()),
        ("/config/users/a%2Fb", ConfigRecord(ConfigKind.USER, "a%2Fb", {})),
        ("/config/users/<default>/clients/c", ConfigRecord(ConfigKind.USER_CLIENT, "<default>/c", {})),
        ("/kafka-acl/Topic/t", AclRecord(AclPattern(Resource.TOPIC, PatternType.LITERAL, "t"), ())),
        ("/kafka-acl-extended/prefixed/Group/g", AclRecord(AclPattern(Resource.GROUP, PatternType.PREFIXED, "g"), ())),
        ("/delegation_token/tokens/x", TokenRemoved("x")),
    ],
)
def test_what_the_end_of_a_node_means(path: str, record: Record | None) -> None:
    assert record_of(Change(path, None)) == record


@pytest.mark.parametrize(
    "path",
    [
        CLUSTER_ID,
        DECOY_SECRET,
        PRODUCER_ID_BLOCK,
        CONTROLLER_EPOCH,
        "/brokers/topics",
        "/brokers/ids",
        "/brokers/seqid",
        "/config/changes/1",
        "/config/users",
        "/config/users/alice/clients",
        "/kafka-acl/Topic",
        "/kafka-acl/Planet/mars",
        "/kafka-acl-changes/acl_changes_0",
        "/kafka-acl-extended/prefixed",
        "/delegation_token/tokens",
        "/delegation_token/token_changes/1",
    ],
)
def test_what_is_not_the_images_is_left_alone(path: str) -> None:
    """Every node was read as JSON, every config as a topic's or a broker's. A node of anybody else stopped us."""
    assert record_of(Change(path, Node(b"not json", 0))) is None
    assert record_of(Change(path, None)) is None


def test_the_nodes_are_those_of_kafka_on_zookeeper() -> None:
    topic_id = UUID(int=5)
    path, value = node_of(TopicRecord("t", topic_id, ((1, 2, 3), (2, 1)), {0: (3,)}, {0: (1,)}))
    assert (path, json.loads(value)) == (
        "/brokers/topics/t",
        {
            "version": 3,
            "topic_id": str(topic_id),
            "partitions": {"0": [1, 2, 3], "1": [2, 1]},
            "adding_replicas": {"0": [3]},
            "removing_replicas": {"0": [1]},
        },
    )
    path, value = node_of(PartitionRecord("t", 3, 1, 4, (1, 2)))
    assert (path, json.loads(value)) == (
        "/brokers/topics/t/partitions/3/state",
        {"version": 1, "leader": 1, "leader_epoch": 4, "isr": [1, 2]},
    )
    path, value = node_of(ConfigRecord(ConfigKind.TOPIC, "t", {"retention.ms": "1"}))
    assert (path, json.loads(value)) == ("/config/topics/t", {"version": 1, "config": {"retention.ms": "1"}})
    path, value = node_of(BrokerRecord(7, 1, (Endpoint("CLIENTS", "::1", 9092, "SSL"),), "a", is_clean=True))
    assert (path, json.loads(value)) == (
        "/brokers/ids/7",
        {
            "version": 5,
            "host": "::1",
            "port": 9092,
            "endpoints": ["CLIENTS://[::1]:9092"],
            "listener_security_protocol_map": {"CLIENTS": "SSL"},
            "rack": "a",
            "features": {},
            "is_clean": True,
            "is_stopping": False,
            "incarnation": "",
        },
    )
    path, value = node_of(ControllerRecord(7, 3))
    assert (path, json.loads(value)) == ("/controller", {"version": 1, "brokerid": 7, "epoch": 3})


@pytest.mark.parametrize(
    ("kind", "parts", "path"),
    [
        (ConfigKind.USER, ("alice",), "/config/users/alice"),
        (ConfigKind.USER, (None,), "/config/users/<default>"),
        (ConfigKind.USER, ("<default>",), "/config/users/%3Cdefault%3E"),
        (ConfigKind.USER, ("CN=a b,O=c/d",), "/config/users/CN%3Da%20b%2CO%3Dc%2Fd"),
        (ConfigKind.USER, ("..",), "/config/users/%2E%2E"),
        (ConfigKind.CLIENT, ("c",), "/config/clients/c"),
        (ConfigKind.USER_CLIENT, ("alice", None), "/config/users/alice/clients/<default>"),
        (ConfigKind.USER_CLIENT, (None, "c/d"), "/config/users/<default>/clients/c%2Fd"),
        (ConfigKind.IP, ("10.0.0.1",), "/config/ips/10.0.0.1"),
    ],
)
def test_quotas_and_users_are_where_kafka_has_them(kind: ConfigKind, parts: tuple[str | None, ...], path: str) -> None:
    record = ConfigRecord(kind, entity_name(*parts), {"producer_byte_rate": "1024"})
    assert node_of(record) == (path, b'{"version":1,"config":{"producer_byte_rate":"1024"}}')


def test_acls_and_tokens_are_where_kafka_has_them() -> None:
    entries = (
        AclEntry("User:alice", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW),
        AclEntry("User:bob", "10.0.0.1", Operation.READ, Permission.DENY),
    )
    path, value = node_of(AclRecord(AclPattern(Resource.TRANSACTIONAL_ID, PatternType.LITERAL, "a b"), entries))
    alice = {"principal": "User:alice", "permissionType": "Allow", "operation": "DescribeConfigs", "host": "*"}
    bob = {"principal": "User:bob", "permissionType": "Deny", "operation": "Read", "host": "10.0.0.1"}
    assert (path, json.loads(value)) == ("/kafka-acl/TransactionalId/a%20b", {"version": 1, "acls": [alice, bob]})
    path, _ = node_of(AclRecord(AclPattern(Resource.TOPIC, PatternType.PREFIXED, "orders-"), entries))
    assert path == "/kafka-acl-extended/prefixed/Topic/orders-"
    path, value = node_of(TokenRecord("i", "User:alice", "User:bob", ("User:carl",), 1, 2, 3))
    assert (path, json.loads(value)) == (
        "/delegation_token/tokens/i",
        {
            "version": 3,
            "tokenId": "i",
            "owner": "User%3Aalice",
            "tokenRequester": "User%3Abob",
            "renewers": ["User%3Acarl"],
            "issueTimestamp": 1,
            "expiryTimestamp": 2,
            "maxTimestamp": 3,
        },
    )


def test_a_token_of_its_requester_is_read_without_the_field() -> None:
    value = b'{"version":1,"owner":"User%3Aa","renewers":[],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2}'
    record = TokenRecord("i", "User:a", "User:a", (), 1, 2, 3)
    assert record_of(Change("/delegation_token/tokens/i", Node(value, 0))) == record


def test_a_topic_from_before_reassignments_is_read() -> None:
    value = b'{"version":3,"topic_id":"00000000-0000-0000-0000-000000000005","partitions":{"0":[1]}}'
    record = TopicRecord("t", UUID(int=5), ((1,),))
    assert record_of(Change("/brokers/topics/t", Node(value, 0))) == record
