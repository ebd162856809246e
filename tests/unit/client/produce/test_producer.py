"""Producing, through both faces, to a Tailrace broker or to Apache Kafka."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, as_completed, wait

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.client.error import BootstrapError, ClientClosed, RecordTooLarge
from tailrace.records.compression import Compression
from tailrace.records.murmur2 import partition_for_key

MakeTopic = Callable[..., str]
START_MS = 1_700_000_000_000


def read(bootstrap: str, topic: str, count: int) -> dict[int, list[tailrace.ConsumerRecord]]:
    """The first `count` records of a topic, by partition."""
    found: dict[int, list[tailrace.ConsumerRecord]] = {}
    with tailrace.Consumer(bootstrap, auto_offset_reset="earliest").subscribe(topic) as consumer:
        left = count
        while left:
            records = consumer.poll(60)
            assert records, f"{left} of {count} records are missing"
            left -= len(records)
            for record in records:
                found.setdefault(record.partition, []).append(record)
    return found


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", [codec.config_name for codec in Compression])
def test_records_come_back_as_they_went(
    bootstrap: str, make_topic: MakeTopic, face: Face, codec: str, acks: str
) -> None:
    topic = make_topic()
    sent = [
        (START_MS + index, [b"key-%d" % index, b"", None][index % 3], [b"v" * index, None][index % 5 == 0], headers)
        for index in range(200)
        for headers in [[("a", b"1"), ("a", None), ("ключ", b"\xff")][: index % 4]]
    ]
    with face.producer(bootstrap, acks=acks, compression_type=codec, batch_size=4096) as producer:
        futures = [
            producer.send(topic, value, key, headers, timestamp_ms=timestamp_ms)
            for timestamp_ms, key, value, headers in sent
        ]
        producer.flush()
        metadata = [future.result(60) for future in futures]
    records = read(bootstrap, topic, len(sent))[0]
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in records] == sent
    offsets = [-1] * 200 if acks == "0" else list(range(200))
    assert metadata == [(topic, 0, offset, START_MS + index) for index, offset in enumerate(offsets)]


def test_keys_choose_partitions_as_in_other_clients(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(5)
    keys = [b"user-%d" % index for index in range(100)]
    with face.producer(bootstrap) as producer:
        futures = [producer.send(topic, b"v", key) for key in keys]
        producer.flush()
        assert [future.result(60).partition for future in futures] == [partition_for_key(key, 5) for key in keys]
        assert producer.partitions_for(topic) == [0, 1, 2, 3, 4]


def test_a_partition_may_be_named_or_chosen_by_a_function(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(4)
    seen = []

    def choose(name: str, key: bytes | None, value: bytes | None, partitions: object) -> int:
        seen.append((name, key, value, list(partitions)))  # type: ignore[call-overload]
        return 3

    with face.producer(bootstrap, partitioner=choose) as producer:
        assert producer.send(topic, b"v", b"k").result(60).partition == 3
        assert producer.send(topic, b"v", b"k", partition=1).result(60).partition == 1
        with pytest.raises(tailrace.ApiError, match="has 4 partitions, none with the number 4"):
            producer.send(topic, b"v", partition=4)
    assert seen == [(topic, b"k", b"v", [0, 1, 2, 3])]


def test_without_keys_batches_go_round(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(3)
    with face.producer(bootstrap, batch_size=1024) as producer:
        for _ in range(600):
            producer.send(topic, b"x" * 20)
    assert set(read(bootstrap, topic, 600)) == {0, 1, 2}


def test_ignored_keys_choose_nothing(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(3)
    with face.producer(bootstrap, batch_size=1024, partitioner_ignore_keys=True) as producer:
        for _ in range(600):
            producer.send(topic, b"x" * 20, b"one key")
    assert set(read(bootstrap, topic, 600)) == {0, 1, 2}


def test_a_topic_is_created_by_writing_to_it(bootstrap: str, topic: str, face: Face) -> None:
    with face.producer(bootstrap) as producer:
        assert producer.send(topic, b"first").result(60)[:3] == (topic, 0, 0)


def test_what_is_no_record_is_refused_at_once(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    with face.producer(bootstrap, max_request_size=1000) as producer:
        with pytest.raises(TypeError, match="value must be bytes or None, not str"):
            producer.send(topic, "text")
        with pytest.raises(TypeError, match="key must be bytes or None, not int"):
            producer.send(topic, b"v", 5)
        with pytest.raises(TypeError, match="the name of a header must be str"):
            producer.send(topic, b"v", headers=[(b"a", b"b")])
        with pytest.raises(ValueError, match="not a time in milliseconds"):
            producer.send(topic, b"v", timestamp_ms=-5)
        with pytest.raises(RecordTooLarge, match=r"more than max_request_size \(1000\)"):
            producer.send(topic, b"x" * 1001)
        assert producer.send(topic, bytearray(b"v"), memoryview(b"k")).result(60).offset == 0


def test_a_record_that_the_topic_finds_too_large_names_the_option(
    bootstrap: str, make_topic: MakeTopic, face: Face
) -> None:
    topic = make_topic(max_message_bytes="2000")
    with face.producer(bootstrap, batch_size=100_000, linger_ms=1000) as producer:
        futures = [producer.send(topic, b"%03d" % index * 30) for index in range(100)]
        too_large = producer.send(topic, b"x" * 3000)
        after = producer.send(topic, b"after")
        producer.flush()
        with pytest.raises(tailrace.ApiError, match=r"MESSAGE_TOO_LARGE: .* topic's max\.message\.bytes"):
            too_large.result(60)
        assert sorted(future.result(60).offset for future in futures) == list(range(100))
        assert after.result(60).offset == 100
    records = read(bootstrap, topic, 101)[0]
    assert [int((record.value or b"")[:3]) for record in records[:100]] == list(range(100))


def test_a_closed_producer_takes_nothing(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = tailrace.Producer(bootstrap, linger_ms=10_000)
    future = producer.send(topic, b"v")
    producer.close()  # flushes first
    assert future.result(0).offset == 0
    with pytest.raises(ClientClosed):
        producer.send(topic, b"v")
    producer.close()


def test_nobody_listening_is_an_error_at_once(face: Face) -> None:
    with face.producer("127.0.0.1:1") as producer, pytest.raises(BootstrapError, match="cannot connect"):
        producer.send("t", b"v")


def test_futures_are_those_of_the_standard_library(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    told: list[int] = []
    with tailrace.Producer(bootstrap, linger_ms=20) as producer:
        futures = [
            producer.send(topic, b"%d" % index, on_delivery=lambda future: told.append(future.result().offset))
            for index in range(20)
        ]
        assert all(isinstance(future, Future) for future in futures)
        assert not wait(futures, 60).not_done
        assert {future.result().offset for future in as_completed(futures)} == set(range(20))
        futures[0].add_done_callback(lambda future: told.append(-future.result().offset))
    assert told == [*range(20), 0]


def test_several_threads_send_through_one_producer(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    with tailrace.Producer(bootstrap, batch_size=2000) as producer:

        def send(thread: int) -> None:
            for index in range(300):
                producer.send(topic, b"%d" % index, b"thread-%d" % thread)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_key: dict[bytes | None, list[int]] = {}
    for records in read(bootstrap, topic, 1200).values():
        for record in records:
            by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert by_key == {b"thread-%d" % number: list(range(300)) for number in range(4)}
