"""Records as nodes of the store, and back."""

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.coordination.layout import CLUSTER_ID, CONTROLLER_EPOCH, PRODUCER_ID_BLOCK, Stored, node_of, record_of
from runnel.coordination.store import Change, Node
from runnel.machines.controller.record import (
    CLUSTER_DEFAULT,
    NO_BROKER,
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

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
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
EPOCHS = st.integers(0, 2**31 - 1)

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
        st.sampled_from(ConfigKind),
        st.one_of(NAMES, st.just(CLUSTER_DEFAULT)),
        st.dictionaries(TEXTS, TEXTS, min_size=1),
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(record=STORED, version=st.integers(0, 9))
def test_a_record_comes_back_as_it_was(record: Stored, version: int) -> None:
    path, value = node_of(record)
    assert record_of(Change(path, Node(value, version, created=7))) == record


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
    ],
)
def test_what_the_end_of_a_node_means(path: str, record: Record | None) -> None:
    assert record_of(Change(path, None)) == record


@pytest.mark.parametrize(
    "path",
    [
        CLUSTER_ID,
        PRODUCER_ID_BLOCK,
        CONTROLLER_EPOCH,
        "/brokers/topics",
        "/brokers/ids",
        "/brokers/seqid",
        "/config/changes/1",
        "/config/users",
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


def test_a_topic_from_before_reassignments_is_read() -> None:
    value = b'{"version":3,"topic_id":"00000000-0000-0000-0000-000000000005","partitions":{"0":[1]}}'
    record = TopicRecord("t", UUID(int=5), ((1,),))
    assert record_of(Change("/brokers/topics/t", Node(value, 0))) == record
