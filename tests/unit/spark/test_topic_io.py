"""Topics as plain calls, against a real broker that also goes wrong on demand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tailrace
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark import topic_io as module
from tailrace.spark.client_setting import parse_client_settings
from tailrace.spark.data_loss import Loss
from tailrace.spark.error import BrokerError, DataLossError, OptionError, WriteError
from tailrace.spark.plan import OffsetRange
from tailrace.spark.topic_io import TopicIO, topic_io
from tailrace.testing import Broker

FAIL, GO_ON = Loss(True), Loss(False)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_faults(broker: Broker) -> Iterator[None]:
    yield
    broker.clear_faults()


@pytest.fixture
def topics(broker: Broker) -> TopicIO:
    return connect(broker)


def connect(broker: Broker, **settings: str) -> TopicIO:
    options = {f"kafka.{name.replace('_', '.')}": text for name, text in settings.items()}
    return topic_io(parse_client_settings({"kafka.bootstrap.servers": broker.bootstrap_servers} | options))


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own with two partitions, in which the records of partition 0 are numbered."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    broker.create_topic(name, 2)
    with tailrace.Producer(broker.bootstrap_servers, batch_size=200) as producer:
        for number in range(100):
            producer.send(name, value=b"%d" % number, partition=0, timestamp_ms=1000 + number)
    return name


def read(topics: TopicIO, wanted: OffsetRange, loss: Loss = FAIL, timeout_ms: int = 60_000) -> list[int]:
    """The numbers of the records in a range."""
    batches = topics.read([wanted], ["value"], timeout_ms=timeout_ms, loss=loss)
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


# --- topics and offsets


def test_topics_that_exist_and_their_partitions(topics: TopicIO, topic: str) -> None:
    assert topics.partition_counts([topic, "not_there"]) == {topic: 2}
    assert topics.partition_counts(None)[topic] == 2


def test_offsets_at_times_and_edges(topics: TopicIO, topic: str) -> None:
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert topics.edges([full, empty]) == ({full: 0, empty: 0}, {full: 100, empty: 0})
    assert topics.offsets({full: 1042, empty: 1042}) == {full: 42, empty: None}
    assert topics.offsets({}) == {}


def test_settings_that_were_used_before_are_connected(broker: Broker) -> None:
    assert connect(broker, client_id="a") is connect(broker, client_id="a")
    assert connect(broker, client_id="a") is not connect(broker, client_id="b")


def test_a_worker_that_was_forked_starts_anew(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of a process do not survive a fork, and its connections belong to the parent."""
    before = connect(broker)
    monkeypatch.setattr(module, "_process", None)
    assert connect(broker) is not before
    again = connect(broker)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert connect(broker) is not again


def test_few_clusters_are_kept(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARK_CLUSTERS_KEPT_MAX", 2)
    first = connect(broker, client_id="first")
    first.partition_counts([])
    connect(broker, client_id="second")
    assert connect(broker, client_id="first") is first
    connect(broker, client_id="third")
    assert connect(broker, client_id="first") is first
    connect(broker, client_id="fourth")
    connect(broker, client_id="fifth")
    assert connect(broker, client_id="first") is not first


def test_brokers_that_do_not_answer() -> None:
    with pytest.raises(BrokerError, match=r"no broker answers at kafka.bootstrap.servers \(127.0.0.1:1\)"):
        topic_io(parse_client_settings({"kafka.bootstrap.servers": "127.0.0.1:1"})).partition_counts(["t"])


def test_brokers_that_come_back_are_found_again(broker: Broker, topics: TopicIO, topic: str) -> None:
    assert topics.partition_counts([topic]) == {topic: 2}
    broker.restart()
    assert topics.partition_counts([topic]) == {topic: 2}
    assert read(topics, OffsetRange(topic, 0, 10, 20)) == list(range(10, 20))


# --- reading


@pytest.mark.parametrize(("start", "end"), [(0, 100), (0, 1), (99, 100), (13, 57)])
def test_a_range_is_read_exactly(topics: TopicIO, topic: str, start: int, end: int) -> None:
    assert read(topics, OffsetRange(topic, 0, start, end)) == list(range(start, end))


def test_a_range_is_read_by_small_fetches(broker: Broker, topic: str) -> None:
    topics = connect(broker, max_partition_fetch_bytes="1")
    assert read(topics, OffsetRange(topic, 0, 5, 95)) == list(range(5, 95))


@pytest.mark.parametrize(
    "fault",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"error": "UNKNOWN_TOPIC_OR_PARTITION"},
        {"error": "KAFKA_STORAGE_ERROR"},
        {"drop": True},
        {"delay": 0.2},
    ],
)
def test_a_fetch_that_goes_wrong_is_tried_again(broker: Broker, topic: str, fault: dict[str, Any]) -> None:
    topics = connect(broker, max_partition_fetch_bytes="1", retry_backoff_ms="1")
    hit = broker.inject("FETCH", count=3, **fault)
    assert read(topics, OffsetRange(topic, 0, 0, 100)) == list(range(100))
    assert hit.hits == 3


def test_a_fetch_that_always_goes_wrong_is_an_error(broker: Broker, topic: str) -> None:
    broker.inject("FETCH", error="TOPIC_AUTHORIZATION_FAILED", count=None)
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        read(connect(broker), OffsetRange(topic, 0, 0, 100))


def test_records_that_are_gone(topics: TopicIO, topic: str, broker: Broker) -> None:
    delete_records(broker, topic, 40)
    with pytest.raises(DataLossError, match=r"offset 10 is out of range, the partition has offsets from 40 to 100"):
        read(topics, OffsetRange(topic, 0, 10, 50))
    assert read(topics, OffsetRange(topic, 0, 10, 50), GO_ON) == list(range(40, 50))
    assert read(topics, OffsetRange(topic, 0, 10, 30), GO_ON) == []


def test_a_range_beyond_the_log(topics: TopicIO, topic: str) -> None:
    with pytest.raises(DataLossError, match="offset 150 is out of range"):
        read(topics, OffsetRange(topic, 0, 150, 160))
    assert read(topics, OffsetRange(topic, 0, 150, 160), GO_ON) == []
    # The end of the log is a place where a record may still come; it is waited for as long as allowed. Records that
    # are there are taken even when the time is over.
    with pytest.raises(DataLossError, match="offset 100 is out of range"):
        read(topics, OffsetRange(topic, 0, 90, 110), timeout_ms=200)
    assert read(topics, OffsetRange(topic, 0, 90, 110), GO_ON, timeout_ms=200) == list(range(90, 100))


def test_a_reader_that_stops_early_leaves_nothing_behind(broker: Broker, topic: str) -> None:
    topics = connect(broker, max_partition_fetch_bytes="1")
    batches = topics.read([OffsetRange(topic, 0, 0, 100)], ["offset"], timeout_ms=60_000, loss=FAIL)
    assert next(batches).column("offset")[0].as_py() == 0
    batches.close()  # type: ignore[attr-defined]
    assert read(topics, OffsetRange(topic, 0, 0, 100)) == list(range(100))


def delete_records(broker: Broker, topic: str, before: int) -> None:
    from confluent_kafka import TopicPartition as Partition
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in client.delete_records([Partition(topic, 0, before)]).values():
        done.result(60)


# --- writing


def write(topics: TopicIO, topic: str | None, *batches: dict[str, Any]) -> dict[str, int]:
    """Write rows as a task does; how many went where."""
    with topics.writer(topic) as writer:
        for columns in batches:
            writer.write(pa.RecordBatch.from_pydict(columns))
        return writer.finish()


def test_rows_are_written_and_counted(topics: TopicIO, topic: str, broker: Broker) -> None:
    rows = {"value": ["x", "y"], "key": ["a", None]}
    assert write(topics, topic, rows, rows, rows) == {topic: 6}
    assert len(broker.consume(topic)) == 106


def test_rows_go_to_the_topics_they_name(topics: TopicIO, broker: Broker) -> None:
    for name in ("one", "two"):
        broker.create_topic(name)
    rows = {"value": ["1", "2", "3"], "topic": ["one", "two", "one"], "offset": [7, 8, 9]}
    assert write(topics, None, rows) == {"one": 2, "two": 1}
    assert [record.value for record in broker.consume("one")] == [b"1", b"3"]


def test_nothing_to_write_needs_no_broker() -> None:
    nowhere = topic_io(parse_client_settings({"kafka.bootstrap.servers": "127.0.0.1:1"}))
    assert write(nowhere, "t") == {}


@pytest.mark.parametrize("fault", [{"error": "NOT_LEADER_OR_FOLLOWER"}, {"drop": True}])
def test_a_write_that_goes_wrong_is_tried_again(broker: Broker, topic: str, fault: dict[str, Any]) -> None:
    topics = connect(broker, retry_backoff_ms="1")
    broker.inject("PRODUCE", count=2, **fault)
    assert write(topics, topic, {"value": ["x"]}) == {topic: 1}
    assert [record.value for record in broker.consume(topic)].count(b"x") == 1


def test_a_write_that_is_refused_is_an_error_and_the_next_works(broker: Broker, topics: TopicIO, topic: str) -> None:
    broker.inject("PRODUCE", error="TOPIC_AUTHORIZATION_FAILED", count=1)
    with pytest.raises(WriteError, match="TOPIC_AUTHORIZATION_FAILED"):
        write(topics, topic, {"value": ["x"]})
    assert write(topics, topic, {"value": ["x"]}) == {topic: 1}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": ["x" * 3000]}, r"Raise max.message.bytes of the topic, or make column value smaller"),
        ({"value": ["x"], "partition": pa.array([5], pa.int32())}, r"none with the number 5. Drop column partition"),
    ],
)
def test_rows_that_no_topic_takes(topics: TopicIO, broker: Broker, columns: dict[str, Any], message: str) -> None:
    name = f"small_{len(columns)}"
    broker.create_topic(name, 1, {"max.message.bytes": 1000})
    with pytest.raises(WriteError, match=message):
        write(topics, name, columns)


def test_a_row_without_a_topic(topics: TopicIO, topic: str) -> None:
    with pytest.raises(WriteError, match="a row has no topic"):
        write(topics, None, {"value": ["x", "y"], "topic": [topic, None]})


def test_a_topic_to_write_must_be_there_or_be_created(topics: TopicIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NEW_TOPIC_TIMEOUT_MS", 100)
    with pytest.raises(OptionError, match="option topic: topic nowhere cannot be written at"):
        topics.require_topic("nowhere")
    with Broker() as creating:
        connect(creating).require_topic("nowhere")
        assert connect(creating).partition_counts(["nowhere"]) == {"nowhere": 1}
