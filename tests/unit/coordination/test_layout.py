"""Records as nodes of the store, and back."""

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.coordination.layout import CLUSTER_ID, PRODUCER_ID_BLOCK, node_of, record_of
from runnel.coordination.store import Change, Node
from runnel.machines.controller.record import (
    CLUSTER_DEFAULT,
    ConfigKind,
    ConfigRecord,
    PartitionRecord,
    Record,
    TopicRecord,
    TopicRemoved,
)

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
BROKERS = st.integers(0, 2**31 - 1)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple)
TEXTS = st.text(max_size=10)

STORED = st.one_of(
    st.builds(TopicRecord, NAMES, st.uuids(), st.lists(REPLICAS, min_size=1, max_size=12).map(tuple)),
    st.builds(PartitionRecord, NAMES, st.integers(0, 10_000), BROKERS, st.integers(0, 2**31 - 1), REPLICAS),
    st.builds(
        ConfigRecord,
        st.sampled_from(ConfigKind),
        st.one_of(NAMES, st.just(CLUSTER_DEFAULT)),
        st.dictionaries(TEXTS, TEXTS, min_size=1),
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(record=STORED, version=st.integers(0, 9))
def test_a_record_comes_back_as_it_was(record: TopicRecord | PartitionRecord | ConfigRecord, version: int) -> None:
    path, value = node_of(record)
    assert record_of(Change(path, Node(value, version))) == record


@pytest.mark.parametrize(
    ("path", "record"),
    [
        ("/brokers/topics/t", TopicRemoved("t")),
        ("/brokers/topics/t/partitions/0/state", None),
        ("/config/topics/t", ConfigRecord(ConfigKind.TOPIC, "t", {})),
        ("/config/brokers/<default>", ConfigRecord(ConfigKind.BROKER, CLUSTER_DEFAULT, {})),
    ],
)
def test_what_the_end_of_a_node_means(path: str, record: Record | None) -> None:
    assert record_of(Change(path, None)) == record


@pytest.mark.parametrize(
    "path", [CLUSTER_ID, PRODUCER_ID_BLOCK, "/brokers/topics", "/brokers/ids/1", "/config/changes/1", "/config/users"]
)
def test_what_is_not_the_images_is_left_alone(path: str) -> None:
    """Every node was read as JSON, every config as a topic's or a broker's. A node of anybody else stopped us."""
    assert record_of(Change(path, Node(b"not json", 0))) is None
    assert record_of(Change(path, None)) is None


def test_the_nodes_are_those_of_kafka_on_zookeeper() -> None:
    topic_id = UUID(int=5)
    assert node_of(TopicRecord("t", topic_id, ((1, 2), (2, 1)))) == (
        "/brokers/topics/t",
        json.dumps(
            {"version": 3, "topic_id": str(topic_id), "partitions": {"0": [1, 2], "1": [2, 1]}}, separators=(",", ":")
        ).encode(),
    )
    path, value = node_of(PartitionRecord("t", 3, 1, 4, (1, 2)))
    assert (path, json.loads(value)) == (
        "/brokers/topics/t/partitions/3/state",
        {"version": 1, "leader": 1, "leader_epoch": 4, "isr": [1, 2]},
    )
    path, value = node_of(ConfigRecord(ConfigKind.TOPIC, "t", {"retention.ms": "1"}))
    assert (path, json.loads(value)) == ("/config/topics/t", {"version": 1, "config": {"retention.ms": "1"}})
