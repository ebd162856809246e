"""Rows written to topics as a batch, read back by another client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.records.murmur2 import partition_for_key
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_rows_become_records(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    topic = new_topic(3)
    rows = [
        (b"a", b"1", [("h", b"x"), ("h", None)], None),
        (b"b", None, None, None),
        (None, b"3", [], 2),
        (b"c", b"4", None, 0),
        (b"", b"", None, None),
    ]
    schema = "key BINARY, value BINARY, headers ARRAY<STRUCT<key STRING, value BINARY>>, partition INT"
    write(spark.createDataFrame(rows, schema), topic=topic)
    found = {
        partition: {(record.key, record.value, tuple(record.headers)) for record in broker.consume(topic, [partition])}
        for partition in range(3)
    }
    expected: dict[int, set[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]] = {
        0: {(b"c", b"4", ())},
        1: set(),
        2: {(None, b"3", ())},
    }
    expected[partition_for_key(b"a", 3)].add((b"a", b"1", (("h", b"x"), ("h", None))))
    expected[partition_for_key(b"b", 3)].add((b"b", None, ()))
    expected[partition_for_key(b"", 3)].add((b"", b"", ()))
    assert found == expected


def test_text_is_written_as_utf_8(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    topic = new_topic()
    write(spark.createDataFrame([("ключ", "wert: ö")], "key STRING, value STRING"), topic=topic)
    record = broker.consume(topic)[0]
    assert (record.key, record.value) == ("ключ".encode(), "wert: ö".encode())


def test_rows_may_name_their_topics_and_the_option_goes_first(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    one, other = new_topic(), new_topic()
    frame = spark.createDataFrame([(one, "1"), (other, "2"), (one, "3")], "topic STRING, value STRING").coalesce(1)
    write(frame)
    assert [record.value for record in broker.consume(one)] == [b"1", b"3"]
    assert [record.value for record in broker.consume(other)] == [b"2"]
    write(frame, topic=other)
    assert len(broker.consume(other)) == 4


def test_a_topic_is_copied_as_it_was_read(
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    read: Callable[..., DataFrame],
    write: Callable[..., None],
) -> None:
    """Large enough for several batches of Arrow, and for more than one request to the broker."""
    source, copy = new_topic(2), new_topic(2)
    rows = spark.range(60_000).selectExpr("cast(id AS STRING) AS key", "repeat(cast(id AS STRING), 20) AS value")
    write(rows, topic=source, **{"kafka.compression.type": "lz4"})
    write(read(subscribe=source, includeHeaders="true"), topic=copy, **{"kafka.acks": "1"})
    for partition in range(2):
        before, after = ([(r.key, r.value) for r in broker.consume(topic, [partition])] for topic in (source, copy))
        assert Counter(before) == Counter(after)
    assert read(subscribe=copy).distinct().count() == 60_000


def test_an_empty_frame_writes_nothing(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    topic = new_topic()
    write(spark.createDataFrame([], "value STRING"), topic=topic)
    assert broker.consume(topic) == []
