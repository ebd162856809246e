"""Records of this client in other clients, and the other way round."""

from collections.abc import Callable

import pytest

import tailrace
from tailrace.records.murmur2 import partition_for_key

confluent_kafka = pytest.importorskip("confluent_kafka")

KEYS = [b"user-%d" % index for index in range(60)] + [b"", b"\x00\xff", "ключ".encode()]
HEADERS = [("h", b"1"), ("h", None)]


def consume(bootstrap: str, topic: str, count: int) -> list[tuple[object, ...]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(3)])
        found: list[tuple[object, ...]] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), 20)
            assert messages
            found += [
                (message.partition(), message.key(), message.value(), message.headers(), message.timestamp()[1])
                for message in messages
            ]
        return sorted(found, key=lambda row: row[2])  # type: ignore[arg-type,return-value]
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_reads_what_this_client_writes(bootstrap: str, make_topic: Callable[..., str], codec: str) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = make_topic(3)
    rows = [(key, b"%03d" % index) for index, key in enumerate(KEYS)]
    with tailrace.Producer(bootstrap, compression_type=codec) as producer:
        for key, value in rows:
            producer.send(topic, value, key, HEADERS, timestamp_ms=5)
        table = pa.table({"key": [key for key, _ in rows], "value": [b"t" + value for _, value in rows]})
        producer.send_table(topic, table).result(60)
    found = consume(bootstrap, topic, 2 * len(rows))
    assert found[: len(rows)] == [(partition_for_key(key, 3), key, value, HEADERS, 5) for key, value in rows]
    assert [row[:4] for row in found[len(rows) :]] == [
        (partition_for_key(key, 3), key, b"t" + value, None) for key, value in rows
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_this_client_reads_what_confluent_writes(bootstrap: str, make_topic: Callable[..., str], codec: str) -> None:
    pytest.importorskip("pyarrow")
    topic = make_topic(3)
    writer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "partitioner": "murmur2_random"}
    )
    for index, key in enumerate(KEYS):
        writer.produce(topic, b"%03d" % index, key, headers=HEADERS, timestamp=5)
    assert writer.flush(20) == 0
    with tailrace.Consumer(bootstrap, auto_offset_reset="earliest").subscribe(topic) as consumer:
        records = [next(consumer) for _ in KEYS]
    # The partition that librdkafka's murmur2 chose is the one that ours chooses; null and empty keys differ there.
    found = {record.value: (record.key, record.partition, record.headers, record.timestamp_ms) for record in records}
    for index, key in enumerate(KEYS):
        got_key, partition, headers, timestamp_ms = found[b"%03d" % index]
        assert (got_key, headers, timestamp_ms) == (key, tuple(HEADERS), 5)
        assert partition == partition_for_key(key, 3) or not key
    table = tailrace.read_table(bootstrap, topic, columns=["value", "key"])
    assert dict(zip(table["value"].to_pylist(), table["key"].to_pylist(), strict=True)) == {
        value: row[0] for value, row in found.items()
    }
