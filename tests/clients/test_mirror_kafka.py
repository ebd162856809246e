"""Mirrors from and to Apache Kafka: transactions, compacted topics, the broker's timestamps and all codecs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.cache import Unavailable
from bench.kafka import ApacheKafka
from tests.eventual import eventually
from tests.unit.spark.mirror.pair import in_threads

import tailrace
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.mirror.job import ClusterConfig
from tailrace.spark.mirror.name import MirrorName
from tailrace.spark.mirror.option import MirrorOptions
from tailrace.spark.mirror.run import MirrorRun
from tailrace.testing import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = {"orders", "stamped", "table"}
GROUP = "billing"
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    try:
        started = ApacheKafka({"log.cleaner.backoff.ms": "500"}).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture
def servers(kafka: ApacheKafka) -> str:
    """Apache Kafka without the topics and the group of another test."""
    with tailrace.Admin(kafka.bootstrap_servers) as admin:
        there = TOPICS & {topic.name for topic in admin.list_topics()}
        admin.delete_topics(sorted(there))
        eventually(admin.list_topics, lambda found: not TOPICS & {topic.name for topic in found})
        if GROUP in {group.group_id for group in admin.list_groups()}:
            assert not isinstance(admin.delete_groups([GROUP])[GROUP], Exception)
    return kafka.bootstrap_servers


def fill(servers: str) -> None:
    """Write all kinds of records, and commit the offsets of a group."""
    with tailrace.Admin(servers) as admin:
        created = admin.create_topics(
            [
                tailrace.NewTopic("orders", 3, 1),
                tailrace.NewTopic("table", 1, 1, COMPACTED),
                tailrace.NewTopic("stamped", 1, 1, {"message.timestamp.type": "LogAppendTime"}),
            ]
        )
        assert not any(isinstance(outcome, Exception) for outcome in created.values())
        for codec in CODECS:
            with tailrace.Producer(servers, compression_type=codec) as producer:
                for number in range(300):
                    key, headers = b"%d" % (number % 50), [("codec", codec.encode())]
                    producer.send("orders", b"%d" % number, key, headers, timestamp_ms=1_700_000_000_000 + number)
                    producer.send("table", None if number % 10 == 0 else b"%d" % number, key)
                    producer.send("stamped", b"%d" % number)
        with tailrace.Producer(servers, transactional_id="writer") as producer:
            for number in range(9):
                producer.begin_transaction()
                for index in range(10):
                    producer.send("orders", b"%d %d" % (number, index))
                    producer.send("table", b"%d" % number, b"of a transaction %d" % index)
                producer.flush()
                if number % 3:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        admin.alter_group_offsets(GROUP, {("orders", 0): 40})


def copy(source: str, target: str, names: tuple[str, str]) -> None:
    clusters = [ClusterConfig((("bootstrap.servers", servers),)) for servers in (source, target)]
    options = MirrorOptions(MirrorName(*names), clusters[0], clusters[1], re.compile("orders|table|stamped"))
    run = MirrorRun(options, lambda _: None)
    try:
        run.start(once=True)
        run.run(in_threads, lambda _: False, once=True)
    finally:
        run.close()


def rows(servers: str, topic: str) -> list[tuple[Any, ...]]:
    columns = ["partition", "key", "value", "timestamp", "headers"]
    table = tailrace.read_table(servers, topic, columns=columns, isolation_level="read_committed")
    return [tuple(map(str, row.values())) for row in table.to_pylist()]


def newest(found: list[tuple[Any, ...]]) -> dict[Any, Any]:
    """The newest value of each key, without those that are deleted."""
    return {key: value for key, value in {row[1]: row[2] for row in found}.items() if value != "None"}


def is_compacted(servers: str) -> bool:
    """Whether the cleaner has removed records, so that batches have gaps."""
    # Only closed segments are compacted, and a segment is closed when a later record arrives.
    with tailrace.Producer(servers) as producer:
        producer.send("table", b"%d" % time.time_ns(), b"the last one")
    return len(rows(servers, "table")) < 1_000


@pytest.mark.slow
def test_to_apache_kafka(servers: str) -> None:
    with Broker() as source:
        fill(source.bootstrap_servers)
        copy(source.bootstrap_servers, servers, ("tailrace", "kafka"))
        for topic in ("orders", "stamped"):
            assert rows(servers, topic) == rows(source.bootstrap_servers, topic)
        assert newest(rows(servers, "table")) == newest(rows(source.bootstrap_servers, "table"))
    with tailrace.Admin(servers) as admin:
        assert admin.list_group_offsets(GROUP)[TopicPartition("orders", 0)].offset == 40


@pytest.mark.slow
def test_from_apache_kafka(servers: str) -> None:
    fill(servers)
    assert eventually(lambda: is_compacted(servers), bool)
    with Broker() as target:
        copy(servers, target.bootstrap_servers, ("kafka", "tailrace"))
        for topic in ("orders", "stamped"):
            assert rows(target.bootstrap_servers, topic) == rows(servers, topic)
        assert newest(rows(target.bootstrap_servers, "table")) == newest(rows(servers, "table"))
        with tailrace.Admin(target.bootstrap_servers) as admin:
            assert admin.list_group_offsets(GROUP)[TopicPartition("orders", 0)].offset == 40
