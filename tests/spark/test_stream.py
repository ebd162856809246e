"""Topics read and written as streams: positions, limits, triggers, and what happens while they run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.waiting import record_count, run_to_end, start_running, wait_until

from tailrace.spark import offsets_behind_latest
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Streams:
    """Starts streams from topics into topics, all with checkpoints of their own."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder

    def start(
        self, frame: DataFrame, topic: str, trigger: dict[str, Any] | None = None, name: str = "q", **options: str
    ) -> StreamingQuery:
        """A running stream."""
        given = {"kafka.bootstrap.servers": self._broker.bootstrap_servers, "topic": topic} | options
        # Without the column partition, which need not be one of the sink's.
        writer = frame.select("key", "value").writeStream.format("tailrace").options(**given)
        writer = writer.option("checkpointLocation", str(self._folder / name))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self, frame: DataFrame, topic: str, name: str = "q") -> list[Any]:
        """Take what is there now, and return the reports of the batches that had rows."""
        queries: list[StreamingQuery] = []

        def begin() -> StreamingQuery:
            queries.append(self.start(frame, topic, {"availableNow": True}, name))
            return queries[-1]

        run_to_end(begin)
        return [report for query in queries for report in query.recentProgress if report.numInputRows]

    @contextmanager
    def running(self, frame: DataFrame, topic: str, name: str = "q", **options: str) -> Iterator[StreamingQuery]:
        """A stream that runs until the block ends; it must not have failed by then."""
        query = start_running(lambda: self.start(frame, topic, trigger=None, name=name, **options))
        try:
            yield query
        finally:
            query.stop()


@pytest.fixture
def streams(broker: Broker, tmp_path: Path) -> Streams:
    return Streams(broker, tmp_path)


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.consume(topic)]


def wait_for_rows(query: StreamingQuery, broker: Broker, topic: str, count: int) -> None:
    """Wait until a stream has reported a batch and written so many rows, or fail with what made it fail."""

    def arrived() -> bool:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        return query.lastProgress is not None and record_count(broker, topic) >= count

    wait_until(arrived)


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def test_what_is_there_is_read_in_batches_and_a_restart_goes_on_where_it_ended(
    broker: Broker, new_topic: Callable[..., str], read_stream: Callable[..., DataFrame], streams: Streams
) -> None:
    source, sink = new_topic(), new_topic()
    broker.produce(source, numbered(0, 250))
    frame = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100")
    reports = streams.run(frame, sink)
    assert [report.numInputRows for report in reports] == [100, 100, 50]
    assert values(broker, sink) == numbered(0, 250)
    assert json.loads(reports[0].sources[0].endOffset) == {source: {"0": 100}}
    assert offsets_behind_latest(reports[0].sources[0]).total == 150
    assert offsets_behind_latest(reports[-1]["sources"][0]).metrics["maxOffsetsBehindLatest"] == "0"

    broker.produce(source, numbered(250, 260))
    assert [report.numInputRows for report in streams.run(frame, sink)] == [10]
    assert values(broker, sink) == numbered(0, 260)
    assert streams.run(frame, sink) == []


def test_a_stream_starts_with_what_comes_next_and_meets_new_partitions_and_topics(
    broker: Broker, read_stream: Callable[..., DataFrame], new_topic: Callable[..., str], streams: Streams
) -> None:
    """Without startingOffsets nothing old is read, but what appears later is read from its beginning."""
    first, sink = new_topic(), new_topic()
    broker.produce(first, numbered(0, 5))
    with streams.running(read_stream(subscribePattern=f"{first}.*"), sink) as query:
        wait_for_rows(query, broker, sink, 0)
        broker.produce(first, numbered(5, 8))
        wait_for_rows(query, broker, sink, 3)
        broker.create_topic(f"{first}_later")
        broker.produce(f"{first}_later", numbered(100, 110))
        wait_for_rows(query, broker, sink, 13)
        add_partition(broker, first)
        broker.produce(first, [(b"key %d" % number, b"%d" % number) for number in range(200, 230)])
        wait_for_rows(query, broker, sink, 43)
    assert sorted(map(int, filter(None, values(broker, sink)))) == [5, 6, 7, *range(100, 110), *range(200, 230)]


def add_partition(broker: Broker, topic: str) -> None:
    import tailrace

    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 2})


def test_a_stream_waits_for_enough_but_not_for_ever(
    broker: Broker, read_stream: Callable[..., DataFrame], new_topic: Callable[..., str], streams: Streams
) -> None:
    source, sink = new_topic(), new_topic()
    broker.produce(source, numbered(0, 5))
    options = {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "1h", "startingOffsets": "earliest"}
    with streams.running(read_stream(subscribe=source, **options), sink) as query:
        wait_for_rows(query, broker, sink, 5)  # the first batch does not wait
        broker.produce(source, numbered(5, 50))
        wait_until(lambda: query.status["message"] == "Waiting for data to arrive")
        assert len(values(broker, sink)) == 5
        broker.produce(source, numbered(50, 55))
        wait_for_rows(query, broker, sink, 55)
        wait_until(lambda: [report.numInputRows for report in query.recentProgress if report.numInputRows] == [5, 50])
    # What is left when a stream takes only what is there is not waited for.
    broker.produce(source, numbered(55, 60))
    streams.run(read_stream(subscribe=source, **options), sink)
    assert values(broker, sink) == numbered(0, 60)


def test_the_first_batch_after_a_crash_is_planned_again_without_a_gap(
    broker: Broker,
    read_stream: Callable[..., DataFrame],
    new_topic: Callable[..., str],
    streams: Streams,
    tmp_path: Path,
) -> None:
    """A stream that starts at the end asks where that is when it starts. Spark asks again when the first batch was not
    finished; records that came in between were lost before the first batch took nothing.
    """
    source, sink = new_topic(2), new_topic()
    frame = read_stream(subscribe=source)
    streams.run(frame, sink)
    commits = tmp_path / "q" / "commits"
    for file in [*commits.iterdir()]:
        file.unlink()  # as if the driver had died before the first batch was finished
    broker.produce(source, [(b"%d" % number, b"%d" % number) for number in range(20)])
    streams.run(frame, sink)
    assert sorted(map(int, filter(None, values(broker, sink)))) == list(range(20))


def test_records_that_are_gone_stop_a_stream_unless_it_may_lose_some(
    broker: Broker, read_stream: Callable[..., DataFrame], new_topic: Callable[..., str], streams: Streams
) -> None:
    from pyspark.errors import StreamingQueryException

    source, sink = new_topic(), new_topic()
    broker.produce(source, numbered(0, 10))
    streams.run(read_stream(subscribe=source, startingOffsets="earliest"), sink)
    recreate(broker, source)
    broker.produce(source, numbered(10, 13))
    with pytest.raises(StreamingQueryException, match=r"ends at 3, before .* 10.*Set option failOnDataLoss to false"):
        streams.run(read_stream(subscribe=source), sink)
    streams.run(read_stream(subscribe=source, failOnDataLoss="false"), sink)
    broker.produce(source, numbered(13, 15))
    streams.run(read_stream(subscribe=source, failOnDataLoss="false"), sink)
    assert values(broker, sink) == [*numbered(0, 10), b"13", b"14"]


def recreate(broker: Broker, topic: str) -> None:
    import tailrace

    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics([topic])
    wait_until(lambda: _creates(broker, topic))


def _creates(broker: Broker, topic: str) -> bool:
    from tailrace.protocol.errors import ApiError

    try:
        broker.create_topic(topic)
    except ApiError:
        return False
    return True


def test_aggregates_are_written_by_windows(
    spark: SparkSession,
    broker: Broker,
    read_stream: Callable[..., DataFrame],
    new_topic: Callable[..., str],
    streams: Streams,
) -> None:
    """Output mode complete writes every row again each time, as with Kafka's own sink."""
    source, sink = new_topic(), new_topic()
    broker.produce(source, [b"a", b"b", b"a"])
    counts = read_stream(subscribe=source, startingOffsets="earliest", columns="value").groupBy("value").count()
    rows = counts.selectExpr("value AS key", "cast(count AS STRING) AS value")
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": sink}
    writer = (
        rows.writeStream.format("tailrace")
        .options(**given)
        .option("checkpointLocation", str(streams._folder / "counts"))
        .outputMode("complete")
        .trigger(availableNow=True)
    )
    run_to_end(writer.start)
    assert sorted((record.key, record.value) for record in broker.consume(sink)) == [(b"a", b"2"), (b"b", b"1")]


def test_a_stream_survives_a_restart_of_the_broker(
    broker: Broker, read_stream: Callable[..., DataFrame], new_topic: Callable[..., str], streams: Streams
) -> None:
    source, sink = new_topic(2), new_topic()
    broker.produce(source, numbered(0, 100))
    with streams.running(read_stream(subscribe=source, startingOffsets="earliest"), sink) as query:
        wait_for_rows(query, broker, sink, 100)
        broker.restart()
        broker.produce(source, numbered(100, 200))
        wait_for_rows(query, broker, sink, 200)
    assert {int(value or b"") for value in values(broker, sink)} == set(range(200))


def test_connections_are_kept_between_micro_batches(
    broker: Broker, read_stream: Callable[..., DataFrame], new_topic: Callable[..., str], streams: Streams
) -> None:
    """Every connection asks for versions when it opens; a stream of many batches opens few."""
    source, sink = new_topic(), new_topic()
    broker.produce(source, numbered(0, 100))
    warm = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    streams.run(warm, sink, "warm")
    opened = broker.inject("API_VERSIONS", delay=0.001, count=None)
    try:
        frame = read_stream(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="10")
        assert len(streams.run(frame, sink)) == 10
    finally:
        broker.clear_faults()
    assert opened.hits < 10
