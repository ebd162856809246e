"""One clear error in the driver for each thing that can be wrong, with the name of the option to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.port import free_port
from tests.spark.waiting import run_to_end

from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def failure(action: Callable[[], Any]) -> str:
    """The last line of what went wrong in Python, out of what Spark makes of it."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        action()
    found = re.findall(r"^tailrace\.spark\.error\.\w+: (.*)$", str(caught.value), re.MULTILINE)
    assert found, str(caught.value)
    assert len(set(found)) == 1, found
    return str(found[0])


@pytest.fixture
def nowhere() -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{free_port()}"


def test_brokers_that_cannot_be_reached(
    spark: SparkSession, read: Callable[..., DataFrame], write: Callable[..., None], nowhere: str
) -> None:
    servers = {"kafka.bootstrap.servers": nowhere}
    expected = f"no broker answers at kafka.bootstrap.servers ({nowhere})"
    assert failure(lambda: read(subscribe="t", **servers).count()).startswith(expected)
    frame = spark.createDataFrame([("x",)], "value STRING")
    assert failure(lambda: write(frame, topic="t", **servers)).startswith(expected)


def test_a_stream_whose_brokers_cannot_be_reached(
    read_stream: Callable[..., DataFrame], nowhere: str, tmp_path: Path
) -> None:
    frame = read_stream(subscribe="t", **{"kafka.bootstrap.servers": nowhere})
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    found = failure(lambda: run_to_end(writer.start))
    assert found.startswith(f"no broker answers at kafka.bootstrap.servers ({nowhere})")


def test_a_topic_that_does_not_exist(
    spark: SparkSession, broker: Broker, read: Callable[..., DataFrame], write: Callable[..., None]
) -> None:
    servers = f"kafka.bootstrap.servers ({broker.bootstrap_servers})"
    assert failure(lambda: read(subscribe="not_there").count()) == (
        f"option subscribe: topic not_there does not exist at {servers}. Create it first, or change the option"
    )
    assert failure(lambda: read(assign='{"not_there":[0]}').count()).startswith(
        "option assign: partition not_there-0 does not exist"
    )
    frame = spark.createDataFrame([("x",)], "value STRING")
    assert failure(lambda: write(frame, topic="not_there")).startswith(
        f"option topic: topic not_there cannot be written at {servers}: UNKNOWN_TOPIC_OR_PARTITION"
    )


def test_an_offset_out_of_range(broker: Broker, read: Callable[..., DataFrame], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    broker.produce(topic, [b"a", b"b"])
    start = {"startingOffsets": f'{{"{topic}":{{"0":7}}}}'}
    assert failure(lambda: read(subscribe=topic, **start).count()) == (
        f"option startingOffsets: offset 7 of {topic}-0 is out of range; the partition has offsets from 0 to 2. "
        "Set option failOnDataLoss to false to continue with the remaining records"
    )
    assert read(subscribe=topic, failOnDataLoss="false", **start).count() == 0
    end = {"endingOffsets": f'{{"{topic}":{{"0":7}}}}'}
    assert failure(lambda: read(subscribe=topic, **end).count()).startswith(
        f"option endingOffsets: offset 7 of {topic}-0 is out of range"
    )
    assert read(subscribe=topic, failOnDataLoss="false", **end).count() == 2


def test_records_that_go_while_a_task_is_on_its_way(
    broker: Broker, read: Callable[..., DataFrame], new_topic: Callable[..., str]
) -> None:
    """The offsets are planned when the frame is first used; the records are deleted before they are read."""
    topic = new_topic()
    broker.produce(topic, [b"a", b"b", b"c"])
    frames = [read(subscribe=topic, failOnDataLoss=fails) for fails in ("true", "false")]
    counts = [frame.rdd for frame in frames]
    assert [one.getNumPartitions() for one in counts] == [1, 1]
    delete_records(broker, topic, 2)
    assert "records of" in failure_of_task(counts[0].count)
    assert counts[1].count() == 1


def failure_of_task(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception, match="DataLossError") as caught:
        action()
    return str(caught.value)


def delete_records(broker: Broker, topic: str, before: int) -> None:
    """Delete the records before an offset, by another client: ours has no call for it."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in client.delete_records([TopicPartition(topic, 0, before)]).values():
        done.result(60)


def test_a_start_after_the_end(broker: Broker, read: Callable[..., DataFrame], new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    broker.produce(topic, [b"a", b"b"])
    bounds = {"startingOffsets": f'{{"{topic}":{{"0":2}}}}', "endingOffsets": f'{{"{topic}":{{"0":1}}}}'}
    assert failure(lambda: read(subscribe=topic, **bounds).count()) == (
        f"option startingOffsets: {topic}-0 starts at 2, after its end at 1; change it or endingOffsets"
    )


def test_a_schema_with_a_wrong_column(
    spark: SparkSession,
    broker: Broker,
    read: Callable[..., DataFrame],
    write: Callable[..., None],
    new_topic: Callable[..., str],
) -> None:
    topic = new_topic()
    assert failure(lambda: read(subscribe=topic, columns="key,colour")).startswith(
        "option columns: unknown column 'colour'; the columns are key, value, topic"
    )
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("tailrace").schema("value STRING").options(**options).load()
    assert failure(frame.count).startswith("column value is binary and cannot be read as string")
    numbers = spark.range(3)
    assert failure(lambda: write(numbers, topic=topic)).startswith("column 'id' cannot be written")
    assert failure(lambda: write(numbers.toDF("value"), topic=topic)) == (
        "column value is bigint and must be binary or string; cast it"
    )
    assert failure(lambda: write(spark.createDataFrame([("x",)], "value STRING"))).startswith("the rows have no topic")


def test_a_value_that_is_too_large(
    spark: SparkSession, broker: Broker, write: Callable[..., None], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes=2000)
    rows = spark.createDataFrame([("x" * 3000,)], "value STRING")
    message = failure(lambda: write(rows, topic=topic))
    assert topic in message
    assert message.endswith("Raise max.message.bytes of the topic, or make column value smaller")
    # Rows that are together too large for one batch, but not each, are divided.
    write(spark.createDataFrame([("x" * 1500,)] * 5, "value STRING"), topic=topic)
    assert len(broker.consume(topic)) == 5


def test_a_partition_that_is_not_there(
    spark: SparkSession, write: Callable[..., None], new_topic: Callable[..., str]
) -> None:
    rows = spark.createDataFrame([("x", 7)], "value STRING, partition INT")
    message = failure(lambda: write(rows, topic=new_topic()))
    assert "has 1 partitions, none with the number 7" in message
    assert message.endswith("Drop column partition, or make it null, to have the key decide")


def test_a_row_without_a_topic(spark: SparkSession, write: Callable[..., None]) -> None:
    rows = spark.createDataFrame([("x", None)], "value STRING, topic STRING")
    assert failure(lambda: write(rows)).startswith("a row has no topic: its column topic is null")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t", "maxOffsetPerTrigger": "5"}, "option maxoffsetpertrigger: it is unknown"),
        (
            {"subscribe": "t", "kafka.auto.offset.reset": "earliest"},
            "option kafka.auto.offset.reset: it is not allowed",
        ),
        ({}, "option subscribe: it is missing"),
    ],
)
def test_options_are_refused_when_the_frame_is_made(
    read: Callable[..., DataFrame], options: dict[str, str], message: str
) -> None:
    assert failure(lambda: read(**options)).startswith(message)


def test_only_appending_is_possible(spark: SparkSession, broker: Broker, new_topic: Callable[..., str]) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": new_topic()}
    rows = spark.createDataFrame([("x",)], "value STRING")
    writer = rows.write.format("tailrace").options(**options).mode("overwrite")
    assert failure(writer.save).startswith("option mode: topics are append-only")
