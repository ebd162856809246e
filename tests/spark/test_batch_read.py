"""Topics read as a batch: rows, columns, bounds, tasks and filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Thirty records in three partitions, one a second from noon on; those of partition 2 are compressed."""
    broker.create_topic("batch_read", 3)
    for compression, partitions in (("none", (0, 1)), ("zstd", (2,))):
        with tailrace.Producer(broker.bootstrap_servers, compression_type=compression) as producer:
            for number in range(30):
                if number % 3 in partitions:
                    producer.send(
                        "batch_read",
                        key=None if number % 10 == 0 else f"k{number}".encode(),
                        value=None if number % 7 == 0 else f"v{number}".encode(),
                        headers=[("n", str(number).encode()), ("empty", None)] if number % 3 == 1 else [],
                        partition=number % 3,
                        timestamp_ms=NOON_MS + number * 1000,
                    )
    return "batch_read"


def numbers(frame: DataFrame) -> set[int]:
    """Which of the records a frame has; they are told by their timestamps."""
    return {round((row.timestamp - NOON.replace(tzinfo=None)).total_seconds()) for row in rows(frame, "timestamp")}


def rows(frame: DataFrame, *columns: str) -> list[Row]:
    return frame.select(*columns).collect()


def test_rows_are_those_of_the_kafka_connector(topic: str, read: Callable[..., DataFrame]) -> None:
    frame = read(subscribe=topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = sorted(frame.collect(), key=lambda row: row.timestamp)
    assert len(found) == 30
    for number, row in enumerate(found):
        assert row.key == (None if number % 10 == 0 else f"k{number}".encode())
        assert row.value == (None if number % 7 == 0 else f"v{number}".encode())
        assert (row.topic, row.partition, row.offset) == (topic, number % 3, number // 3)
        assert row.timestamp == (NOON + timedelta(seconds=number)).replace(tzinfo=None)
        assert row.timestampType == 0
        headers = [("n", str(number).encode()), ("empty", None)] if number % 3 == 1 else None
        assert (row.headers and [tuple(header) for header in row.headers]) == headers


def test_headers_are_left_out_unless_asked_for(topic: str, read: Callable[..., DataFrame]) -> None:
    assert read(subscribe=topic).columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]


def test_columns_are_chosen_by_an_option_or_a_schema(
    topic: str, read: Callable[..., DataFrame], spark: SparkSession, broker: Broker
) -> None:
    frame = read(subscribe=topic, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert frame.where("value = 'v10'").collect() == [(3, b"v10")]
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("tailrace").schema("value BINARY, partition INT").options(**options).load()
    assert frame.where("value = 'v10'").collect() == [(b"v10", 1)]


def test_offsets_bound_a_query(topic: str, read: Callable[..., DataFrame]) -> None:
    frame = read(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":2,"1":-2,"2":9}}}}',
        endingOffsets=f'{{"{topic}":{{"0":4,"1":1,"2":-1}}}}',
    )
    assert numbers(frame) == {6, 9, 1, 29}


def test_times_bound_a_query(topic: str, read: Callable[..., DataFrame]) -> None:
    frame = read(subscribe=topic, startingTimestamp=NOON_MS + 10_000, endingTimestamp=NOON_MS + 20_000)
    assert numbers(frame) == set(range(10, 20))
    times = f'{{"{topic}":{{"0":{NOON_MS + 27_000},"1":{NOON_MS + 25_001},"2":{NOON_MS + 99_000}}}}}'
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(read(subscribe=topic, startingOffsetsByTimestamp=times, **strategy)) == {27, 28}


def test_partitions_are_chosen(topic: str, read: Callable[..., DataFrame]) -> None:
    assert numbers(read(assign=f'{{"{topic}":[1]}}')) == set(range(1, 30, 3))


def test_topics_are_chosen_by_a_pattern(
    topic: str, read: Callable[..., DataFrame], new_topic: Callable[..., str]
) -> None:
    new_topic()
    assert read(subscribePattern="batch_r.*").count() == 30
    assert read(subscribePattern="no such topic").count() == 0


def test_an_empty_topic_has_no_rows(new_topic: Callable[..., str], read: Callable[..., DataFrame]) -> None:
    assert read(subscribe=new_topic(3)).collect() == []


def test_large_partitions_become_several_tasks(topic: str, read: Callable[..., DataFrame]) -> None:
    assert read(subscribe=topic).rdd.getNumPartitions() == 3
    split = read(subscribe=topic, minPartitions="6")
    assert split.rdd.getNumPartitions() == 6
    assert numbers(split) == set(range(30))
    assert read(subscribe=topic, maxRecordsPerPartition="4").rdd.getNumPartitions() == 9


def test_small_fetches_bring_everything_once(topic: str, read: Callable[..., DataFrame]) -> None:
    frame = read(subscribe=topic, **{"kafka.max.partition.fetch.bytes": "1"})
    assert sorted(row.offset for row in rows(frame, "offset")) == sorted(list(range(10)) * 3)


# --- filters


@pytest.mark.parametrize(
    ("condition", "expected", "task_count"),
    [
        ("offset >= 8", set(range(24, 30)), 3),
        ("offset = 4 AND partition = 1", {13}, 1),
        ("partition IN (0, 2) AND offset < 1", {0, 2}, 2),
        ("topic = 'another'", set(), 1),
        ("timestamp >= TIMESTAMP'2026-03-01 12:00:27'", {27, 28, 29}, 3),
        ("timestamp > TIMESTAMP'2026-03-01 12:00:28'", {29}, 2),
        ("timestamp < TIMESTAMP'2026-03-01 12:00:02'", {0, 1}, 3),
        ("key = 'k5'", {5}, 3),
    ],
)
def test_filters_are_answered_by_reading_less(
    topic: str, read: Callable[..., DataFrame], condition: str, expected: set[int], task_count: int
) -> None:
    frame = read(subscribe=topic).where(condition)
    assert numbers(frame) == expected
    assert frame.rdd.getNumPartitions() == task_count


def test_the_plan_shows_what_was_taken_off_spark(topic: str, read: Callable[..., DataFrame]) -> None:
    def has_filter(condition: str, **options: str) -> bool:
        plan = read(subscribe=topic, **options).where(condition)._jdf.queryExecution().executedPlan().toString()
        return "Filter (" in plan

    assert not has_filter("offset > 3 AND partition = 1")
    assert has_filter("timestamp > TIMESTAMP'2026-03-01 12:00:28'")
    assert has_filter("offset > 3", pushdown="false")


def test_filters_work_where_the_session_does_not_push_them(
    topic: str, read: Callable[..., DataFrame], spark: SparkSession
) -> None:
    """Spark refuses a reader that takes filters where that is off, which is its default."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert numbers(read(subscribe=topic).where("offset >= 9 AND partition = 1")) == {28}
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
