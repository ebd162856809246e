"""The calls that Spark makes of a stream, in its order, on a real broker and without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import tailrace
from tailrace.base.limits import SPARK_TASK_OFFSETS_SHARED_MAX
from tailrace.spark.error import BrokerError, DataLossError, OptionError
from tailrace.spark.option import parse_source_options
from tailrace.testing import Broker

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own with two partitions."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    broker.create_topic(name, 2)
    return name


def numbers_in(batches: Iterable[Any]) -> list[int]:
    return [int(value.as_py()) for batch in batches for value in batch.column("value")]


def has_rows(reader: object) -> bool:
    """Whether Spark would take rows from a reader."""
    return isinstance(reader, _SimpleStreamReaderWrapper)


class Stream:
    """A query as Spark drives it: it logs where a batch ends before the batch runs, and that it ran afterwards."""

    def __init__(self, broker: Broker, options: dict[str, str]) -> None:
        self._broker = broker
        self._options = options
        self.logged: Any = None
        self.committed: Any = None
        self.restart()

    def restart(self) -> None:
        """As after a crash: a new reader, and nothing but the logs."""
        from tailrace.spark.stream_reader import StreamReader

        options = {"kafka.bootstrap.servers": self._broker.bootstrap_servers} | self._options
        self.reader = StreamReader(parse_source_options(options))

    def plan(self) -> bool:
        """Log where the next batch ends; False when there is no next batch."""
        if self.logged != self.committed:
            return True  # planned before a crash
        start = self.committed or self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if end == self.committed:
            return False
        self.logged = end
        return True

    def run(self) -> list[int]:
        """Run the batch that is planned; the numbers in it."""
        start = self.committed or self.reader.initialOffset()
        partitions = self.reader.partitions(start, self.logged)
        handed = self.take_rows(start)
        found = [number for partition in partitions for number in self.read(partition)]
        assert handed is None or handed == found
        self.committed = self.logged
        return found

    def take_rows(self, start: Any) -> list[int] | None:
        """Take the rows that the reader hands over with the tasks, as Spark does; None if there are none."""
        if not has_rows(self.reader):
            return None
        rows = self.reader.getCache(start, self.logged)
        assert rows is not None
        assert not has_rows(self.reader)
        return numbers_in(rows)

    def read(self, partition: Any) -> list[int]:
        """Read a range as a task does, with a copy of the reader."""
        reader, wanted = pickle.loads(pickle.dumps((self.reader, partition)))  # noqa: S301
        return numbers_in(reader.read(wanted))

    def step(self) -> list[int]:
        """One trigger."""
        return sorted(self.run()) if self.plan() else []


@pytest.fixture
def stream(broker: Broker, topic: str) -> Callable[..., Stream]:
    return lambda **options: Stream(broker, {"subscribe": topic, "columns": "value"} | options)


def produce(broker: Broker, topic: str, *numbers: int, partition: int = 0) -> None:
    with tailrace.Producer(broker.bootstrap_servers) as producer:
        for number in numbers:
            producer.send(topic, value=b"%d" % number, partition=partition, timestamp_ms=1000 + number)


def test_a_stream_starts_at_the_end_and_reads_what_comes(
    broker: Broker, topic: str, stream: Callable[..., Stream]
) -> None:
    produce(broker, topic, 1, 2)
    query = stream()
    assert query.step() == []
    assert query.committed == {topic: {"0": 2, "1": 0}}
    assert query.step() == []
    produce(broker, topic, 3)
    produce(broker, topic, 4, partition=1)
    assert query.step() == [3, 4]
    assert not query.plan()


@pytest.mark.parametrize("start", ["latest", "mixed"])
def test_nothing_is_skipped_where_the_first_batch_is_planned_again(
    broker: Broker, topic: str, stream: Callable[..., Stream], start: str
) -> None:
    """Spark logs where the first batch ends, but after a crash it asks again where it starts: the end has moved."""
    produce(broker, topic, 1, 2)
    offsets = start if start == "latest" else f'{{"{topic}":{{"0":1,"1":-1}}}}'
    query = stream(startingOffsets=offsets)
    assert query.plan()
    produce(broker, topic, 3)
    produce(broker, topic, 4, partition=1)
    query.restart()
    first = query.run()
    assert first == ([] if start == "latest" else [2])
    assert query.step() == [3, 4]


def test_a_partition_that_comes_before_the_first_batch_is_planned_again(
    broker: Broker, topic: str, stream: Callable[..., Stream]
) -> None:
    query = stream()
    assert query.plan()
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 3})
    produce(broker, topic, 7, partition=2)
    query.restart()
    assert query.run() == []
    assert query.step() == [7]


def test_a_start_at_offsets_times_and_edges(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    produce(broker, topic, 1, 2, 3)
    produce(broker, topic, 4, partition=1)
    assert stream(startingOffsets="earliest").step() == [1, 2, 3, 4]
    assert stream(startingOffsets=f'{{"{topic}":{{"0":2,"1":-2}}}}').step() == [3, 4]
    assert stream(startingTimestamp="1002").step() == [2, 3, 4]
    with pytest.raises(OptionError, match=r"startingTimestamp.*has no record at or after 1004 ms"):
        stream(startingTimestamp="1004").step()
    late = stream(startingTimestamp="1004", startingOffsetsByTimestampStrategy="latest")
    assert late.step() == [4]


def test_a_start_out_of_range(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    offsets = f'{{"{topic}":{{"0":5,"1":-2}}}}'
    with pytest.raises(DataLossError, match=r"option startingOffsets: offset 5 of .* is out of range"):
        stream(startingOffsets=offsets).step()
    query = stream(startingOffsets=offsets, failOnDataLoss="false")
    assert query.step() == []
    produce(broker, topic, 1)
    assert query.step() == [1]


def test_batches_are_as_large_as_allowed(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    produce(broker, topic, *range(10))
    produce(broker, topic, *range(10, 20), partition=1)
    query = stream(startingOffsets="earliest", maxOffsetsPerTrigger="8")
    sizes = []
    while query.plan():
        sizes.append(len(query.run()))
    assert sizes == [8, 8, 4]
    assert query.reader.reportLatestOffset() == {topic: {"0": 10, "1": 10}}


def test_new_partitions_are_read_from_their_beginning_within_the_limit(
    broker: Broker, topic: str, stream: Callable[..., Stream]
) -> None:
    query = stream(maxOffsetsPerTrigger="2")
    query.step()
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 3})
    produce(broker, topic, 1, 2, 3, partition=2)
    assert query.step() == [1, 2]
    assert query.step() == [3]


def test_a_query_that_takes_what_is_there_ends_there(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    produce(broker, topic, 1, 2, 3)
    query = stream(startingOffsets="earliest", maxOffsetsPerTrigger="2", minOffsetsPerTrigger="2")
    query.reader.prepareForTriggerAvailableNow()
    assert query.step() == [1, 2]
    produce(broker, topic, 4, 5, 6)
    assert query.step() == [3]
    assert not query.plan()


def test_waiting_for_enough_keeps_the_position(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    query = stream(startingOffsets="earliest", minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    produce(broker, topic, 1)
    assert query.step() == [1]
    produce(broker, topic, 2, 3)
    assert not query.plan()
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 3})
    assert not query.plan()  # a partition that is new and empty is no reason
    produce(broker, topic, 4, partition=2)
    assert query.step() == [2, 3, 4]


def test_a_topic_that_is_gone(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    produce(broker, topic, 1)
    query = stream(startingOffsets="earliest")
    careless = stream(startingOffsets="earliest", failOnDataLoss="false")
    assert query.step() == careless.step() == [1]
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics([topic])
    with pytest.raises(OptionError, match=f"option subscribe: topic {topic} does not exist"):
        query.step()
    assert careless.step() == []


def test_partitions_are_looked_up_as_seldom_as_allowed(
    broker: Broker, topic: str, stream: Callable[..., Stream]
) -> None:
    query = stream(**{"partition.metadata.cache.ttl.ms": "3600000"})
    query.step()
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 3})
    produce(broker, topic, 1, partition=2)
    assert not query.plan()


def test_large_batches_are_divided(broker: Broker, topic: str, stream: Callable[..., Stream]) -> None:
    produce(broker, topic, *range(10))
    query = stream(startingOffsets="earliest", maxRecordsPerPartition="3")
    assert query.plan()
    assert len(query.reader.partitions(query.reader.initialOffset(), query.logged)) == 4
    assert query.run() == list(range(10))


# --- rows that the driver reads itself


def test_the_driver_hands_over_the_rows_of_a_small_batch(
    broker: Broker, topic: str, stream: Callable[..., Stream]
) -> None:
    query = stream(startingOffsets="earliest")
    produce(broker, topic, 1, 2)
    produce(broker, topic, 3, partition=1)
    assert query.plan()
    start = query.reader.initialOffset()
    assert len(query.reader.partitions(start, query.logged)) == 1
    assert query.take_rows(start) == [1, 2, 3]
    assert query.reader.getCache(start, query.logged) is None
    assert query.reader.reportLatestOffset() == {topic: {"0": 2, "1": 1}}


@pytest.mark.parametrize("options", [{"minPartitions": "1"}, {"maxRecordsPerPartition": "10"}])
def test_tasks_read_what_the_options_divide(
    broker: Broker, topic: str, stream: Callable[..., Stream], options: dict[str, str]
) -> None:
    query = stream(startingOffsets="earliest", **options)
    produce(broker, topic, 1)
    assert query.plan()
    start = query.reader.initialOffset()
    query.reader.partitions(start, query.logged)
    assert query.take_rows(start) is None


def test_tasks_read_a_batch_of_many_records_or_bytes(
    broker: Broker, topic: str, stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = stream(startingOffsets="earliest")
    produce(broker, topic, *range(SPARK_TASK_OFFSETS_SHARED_MAX + 1))
    assert query.plan()
    start = query.reader.initialOffset()
    query.reader.partitions(start, query.logged)
    assert query.take_rows(start) is None
    assert len(query.run()) == SPARK_TASK_OFFSETS_SHARED_MAX + 1
    produce(broker, topic, 1, 2)
    assert query.plan()
    monkeypatch.setattr("tailrace.spark.driver_rows.SPARK_DRIVER_ROWS_BYTES_MAX", 1)
    query.reader.partitions(query.committed, query.logged)
    assert query.take_rows(query.committed) is None
    assert query.step() == [1, 2]


def test_a_task_reports_what_the_driver_could_not_read(
    broker: Broker, topic: str, stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_options: Any, _partition: Any) -> Iterator[Any]:
        yield from ()
        raise BrokerError("no record arrived")

    query = stream(startingOffsets="earliest")
    produce(broker, topic, 1)
    assert query.plan()
    start = query.reader.initialOffset()
    monkeypatch.setattr("tailrace.spark.stream_reader.read_ranges", fail)
    (partition,) = query.reader.partitions(start, query.logged)
    assert query.take_rows(start) is None
    with pytest.raises(BrokerError, match="no record arrived"):
        list(query.reader.read(partition))
