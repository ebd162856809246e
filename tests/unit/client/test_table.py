"""Tables in and out of topics, through both faces, with a Tailrace broker or Apache Kafka."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.records.murmur2 import partition_for_key

pa = pytest.importorskip("pyarrow")

MakeTopic = Callable[..., str]
MOMENT = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_table_comes_back_as_it_went(bootstrap: str, make_topic: MakeTopic, face: Face, codec: str) -> None:
    topic = make_topic()
    table = pa.table(
        {
            "key": pa.array([b"a", None, b""] * 1000, pa.binary()),
            "value": pa.array([b"1", b"22", None] * 1000, pa.binary()),
            "headers": pa.array([None, [("h", b"x"), ("h", None)], None] * 1000, HEADERS),
            "timestamp": pa.array([MOMENT] * 3000, pa.timestamp("us", tz="UTC")),
        }
    )
    with face.producer(bootstrap, batch_size=10_000, compression_type=codec) as producer:
        delivery = producer.send_table(topic, table).result(60)
        assert delivery == (topic, 3000, {0: (3000, 0, 2999)})
    found = tailrace.read_table(bootstrap, topic)
    assert found.select(table.column_names) == table
    assert found["offset"].to_pylist() == list(range(3000))
    assert set(found["topic"].to_pylist()) == {topic}
    with face.consumer(bootstrap).assign([(topic, 0, "earliest")]) as consumer:
        reading = consumer.batches(["value", "offset"], timeout_s=60)
        batches = [next(reading)]
        while sum(batch.num_rows for batch in batches) < 3000:
            batches.append(next(reading))
        reading.close()
    assert pa.Table.from_batches(batches) == found.select(["value", "offset"])


def test_keys_and_partitions_choose_where_rows_go(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(4)
    keys = [b"user-%d" % (index % 20) for index in range(500)]
    numbers = [b"%d" % index for index in range(500)]
    named = [None if index % 2 else index % 4 for index in range(500)]
    with face.producer(bootstrap) as producer:
        producer.send_table(topic, pa.table({"key": keys, "value": numbers})).result(60)
        producer.send_table(topic, pa.table({"key": keys, "value": numbers, "partition": named})).result(60)
    found = tailrace.read_table(bootstrap, topic, columns=["partition", "key", "value"]).to_pylist()
    for partition in range(4):
        mine = [row for row in found if row["partition"] == partition]
        by_key = [index for index, key in enumerate(keys) if partition_for_key(key, 4) == partition]
        by_name = [
            index
            for index, (key, name) in enumerate(zip(keys, named, strict=True))
            if (partition_for_key(key, 4) if name is None else name) == partition
        ]
        assert [int(row["value"]) for row in mine] == by_key + by_name  # in the order of the rows


def test_rows_without_keys_go_round(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(3)
    with face.producer(bootstrap, batch_size=1000) as producer:
        delivery = producer.send_table(topic, pa.table({"value": [b"x" * 50] * 500})).result(60)
    assert sum(part.record_count for part in delivery.partitions.values()) == delivery.record_count == 500
    assert set(delivery.partitions) == {0, 1, 2}


def test_a_partitioner_chooses_for_rows_too(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(2)
    with face.producer(bootstrap, partitioner=lambda _topic, _key, value, _all: int(value or b"")) as producer:
        delivery = producer.send_table(topic, pa.table({"value": ["0", "1", "1"]})).result(60)
    assert {partition: part.record_count for partition, part in delivery.partitions.items()} == {0: 1, 1: 2}


def test_records_and_tables_keep_their_order(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    with face.producer(bootstrap, batch_size=500) as producer:
        for turn in range(5):
            producer.send(topic, b"%d" % (turn * 101))
            producer.send_table(topic, pa.table({"value": [str(turn * 101 + 1 + index) for index in range(100)]}))
    found = tailrace.read_table(bootstrap, topic, columns=["value"])["value"].to_pylist()
    assert [int(value) for value in found] == list(range(505))


def test_a_table_in_many_forms(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    table = pa.table({"value": ["a", "b"]})
    with face.producer(bootstrap) as producer:
        for form in (table, table.to_batches()[0], pa.concat_tables([table[:1], table[1:]]), table[:0]):
            producer.send_table(topic, form).result(60)
    assert tailrace.read_table(bootstrap, topic)["value"].to_pylist() == [b"a", b"b"] * 3


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"key": [b"k"]}, ValueError, "no column 'value'"),
        ({"value": [b"v"], "valeu": [1]}, ValueError, "column 'valeu' cannot be written; a record has key, value"),
        ({"value": [1.5]}, TypeError, "column 'value' is double"),
        ({"value": [b"v"], "key": [1]}, TypeError, "column 'key' is int64"),
        ({"value": [b"v"], "partition": ["0"]}, TypeError, "column 'partition' is string"),
        ({"value": [b"v"], "partition": [9]}, tailrace.ApiError, "has 1 partitions, none with the number 9"),
    ],
)
def test_a_table_that_is_none_is_refused(
    bootstrap: str, make_topic: MakeTopic, face: Face, columns: dict[str, object], error: type[Exception], words: str
) -> None:
    topic = make_topic()
    with face.producer(bootstrap) as producer:
        with pytest.raises(error, match=words):
            producer.send_table(topic, pa.table(columns))
        with pytest.raises(TypeError, match="list is not an Arrow table"):
            producer.send_table(topic, [1])
        assert producer.send_table(topic, pa.table({"value": [b"v"]})).result(60).record_count == 1


def test_a_batch_of_rows_that_the_topic_finds_too_large_is_split(
    bootstrap: str, make_topic: MakeTopic, face: Face
) -> None:
    topic = make_topic(max_message_bytes="2000")
    with face.producer(bootstrap, batch_size=20_000) as producer:
        table = pa.table({"value": [b"%03d" % index * 30 for index in range(200)]})
        assert producer.send_table(topic, table).result(60).record_count == 200
        with pytest.raises(tailrace.ApiError, match=r"max\.message\.bytes"):
            producer.send_table(topic, pa.table({"value": [b"x" * 3000]})).result(60)
    assert tailrace.read_table(bootstrap, topic)["value"].to_pylist() == table["value"].to_pylist()


def test_a_table_is_read_between_places(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    with tailrace.Producer(bootstrap) as producer:
        for partition in range(2):
            for index in range(10):
                at_ms = 1_700_000_000_000 + index
                producer.send(topic, b"%d" % index, partition=partition, timestamp_ms=at_ms)

    def read(**places: object) -> list[tuple[int, int]]:
        table = tailrace.read_table(bootstrap, topic, columns=["partition", "offset"], **places)  # type: ignore[arg-type]
        return [(row["partition"], row["offset"]) for row in table.to_pylist()]

    everything = [(partition, offset) for partition in range(2) for offset in range(10)]
    assert read() == everything
    assert read(start="-1h") == []
    assert read(start=7) == [place for place in everything if place[1] >= 7]
    assert read(start=2, end=4) == [place for place in everything if 2 <= place[1] < 4]
    assert read(partitions=[1], end=1) == [(1, 0)]
    moment = datetime.fromtimestamp(1_700_000_000.005, UTC)
    assert read(start=moment) == [place for place in everything if place[1] >= 5]
    assert read(end=moment) == [place for place in everything if place[1] < 5]


def test_what_cannot_be_read_is_refused(bootstrap: str, make_topic: MakeTopic, topic: str) -> None:
    with pytest.raises(tailrace.ApiError, match=f"UNKNOWN_TOPIC_OR_PARTITION: topic {topic}"):
        tailrace.read_table(bootstrap, topic)
    make_topic()
    with pytest.raises(ValueError, match="records have no column 'values'"):
        tailrace.read_table(bootstrap, topic, columns=["values"])
    with pytest.raises(ValueError, match="not a place in a log"):
        tailrace.read_table(bootstrap, topic, start="yesterday")
    with pytest.raises(tailrace.ApiError, match="none with the number 3"):
        tailrace.read_table(bootstrap, topic, partitions=[3])
    assert tailrace.read_table(bootstrap, topic).num_rows == 0


def test_what_was_not_handed_out_is_read_later(
    bootstrap: str, make_topic: Callable[..., str], face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stopped in the middle of what a fetch had brought lost the rest: the next batches began behind it."""
    arrow_decode = pytest.importorskip("tailrace.records.arrow.decode")
    small = partial(arrow_decode.ColumnDecoder, chunk_bytes_max=1)  # a batch for each that was produced
    monkeypatch.setattr(arrow_decode, "ColumnDecoder", small)
    topic = make_topic()
    with tailrace.Producer(bootstrap, linger_ms=0) as producer:
        for number in range(6):
            producer.send(topic, b"%d" % number).result(60)
    with face.consumer(bootstrap).assign([(topic, 0, 0)]) as consumer:
        assert [int(record.value) for record in consumer.poll(60, 2)] == [0, 1]
        found: list[int] = []
        while len(found) < 4:
            batches = consumer.batches(["value"], timeout_s=60)
            found += map(int, next(batches)["value"].to_pylist())
            batches.close()
        assert found == [2, 3, 4, 5]


def test_a_table_belongs_to_no_group() -> None:
    with pytest.raises(tailrace.ConfigError, match="read_table reads the given range and has no group"):
        tailrace.read_table("127.0.0.1:1", "t", group_id="g")
