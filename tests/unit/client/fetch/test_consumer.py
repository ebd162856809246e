"""Consuming without a group, through both faces, from a Tailrace broker or from Apache Kafka."""

import logging
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.client.backoff import Deadline
from tailrace.client.error import BootstrapError, ClientClosed, OffsetMissing
from tailrace.client.fetch.fetcher import Fetcher
from tailrace.client.fetch.isolation import Isolation
from tailrace.client.fetch.request import readable_end
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.fetch import FetchResponsePartition

MakeTopic = Callable[..., str]
START_MS = 1_700_000_000_000


def fill(bootstrap: str, topic: str, count: int = 10, partition: int = 0) -> None:
    """Values 0, 1, 2 … that are ten milliseconds apart."""
    with tailrace.Producer(bootstrap, linger_ms=60_000) as producer:
        for index in range(count):
            producer.send(topic, b"%d" % index, partition=partition, timestamp_ms=START_MS + 10 * index)


def values(records: list[Any]) -> list[int]:
    return [int(record.value) for record in records]


def take(consumer: Any, count: int) -> list[Any]:
    return list(islice(iter(consumer), count))


def fetcher_lines(caplog: pytest.LogCaptureFixture, topic: str) -> list[tuple[int, str]]:
    """What the fetcher has logged about partition 0 of a topic, which is called T in it."""
    name = f"{topic}-0"
    texts = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == Fetcher.__module__]
    return [(level, text.replace(name, "T")) for level, text in texts if name in text]


def test_a_subscription_reads_every_partition(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(3)
    for partition in range(3):
        fill(bootstrap, topic, 5, partition)
    with face.consumer(bootstrap, auto_offset_reset="earliest").subscribe(topic) as consumer:
        records = take(consumer, 15)
        assert {record.partition: 0 for record in records} == dict.fromkeys(range(3), 0)
        for partition in range(3):
            assert values([record for record in records if record.partition == partition]) == [0, 1, 2, 3, 4]
            assert consumer.position(topic, partition) == 5
        assert consumer.assignment() == [(topic, partition) for partition in range(3)]
        assert records[0] == (topic, records[0].partition, 0, START_MS, None, b"0", ())


def test_a_pattern_reads_what_matches(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(1)
    fill(bootstrap, topic, 3)
    with face.consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(re.compile(topic[:-1] + "."))
        assert {record.topic for record in take(consumer, 3)} == {topic}


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        (4, 4),
        (datetime.fromtimestamp((START_MS + 31) / 1000, UTC), 4),
        (datetime.fromtimestamp((START_MS + 40) / 1000, UTC).isoformat(), 4),
    ],
)
def test_reading_begins_at_any_place(bootstrap: str, make_topic: MakeTopic, face: Face, start: Any, first: int) -> None:
    topic = make_topic()
    fill(bootstrap, topic)
    with face.consumer(bootstrap).assign([(topic, 0, start)]) as consumer:
        assert values(take(consumer, 10 - first)) == list(range(first, 10))


def test_the_latest_is_what_comes_next(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 5)
    with face.consumer(bootstrap).assign([(topic, 0)]) as consumer:
        assert consumer.position(topic, 0) == 5
        assert consumer.poll(0.05) == []
        fill(bootstrap, topic, 2)
        assert values(take(consumer, 2)) == [0, 1]


def test_seeking_drops_what_was_fetched(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    fill(bootstrap, topic)
    with face.consumer(bootstrap).assign([(topic, 0, "earliest")]) as consumer:
        assert values(take(consumer, 3)) == [0, 1, 2]
        assert consumer.position(topic, 0) == 3
        consumer.seek(topic, 0, 8)
        assert values(take(consumer, 2)) == [8, 9]
        consumer.seek_to_beginning()
        assert values(take(consumer, 1)) == [0]
        consumer.seek_to_end((topic, 0))
        assert consumer.position(topic, 0) == 10
        with pytest.raises(ValueError, match=f"{topic}-1 is not assigned"):
            consumer.seek(topic, 1, 0)


def test_a_paused_partition_hands_out_nothing(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(2)
    for partition in range(2):
        fill(bootstrap, topic, 5, partition)
    with face.consumer(bootstrap).assign([(topic, 0, "earliest"), (topic, 1, "earliest")]) as consumer:
        first = consumer.poll(60, 1)[0]
        consumer.pause((topic, first.partition))
        assert consumer.paused() == [(topic, first.partition)]
        others = take(consumer, 5)
        assert {record.partition for record in others} == {1 - first.partition}
        assert consumer.poll(0.05) == []
        consumer.resume()
        assert values(take(consumer, 4)) == [1, 2, 3, 4]


def test_poll_returns_at_most_so_many(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    fill(bootstrap, topic)
    with face.consumer(bootstrap, max_poll_records=4).assign([(topic, 0, 0)]) as consumer:
        assert values(consumer.poll(60)) == [0, 1, 2, 3]
        assert values(consumer.poll(60, 1)) == [4]
        assert values(consumer.poll(60)) == [5, 6, 7, 8]
        assert values(consumer.poll(60)) == [9]


def test_offsets_are_found(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(2)
    fill(bootstrap, topic)
    both = [(topic, 0), (topic, 1)]
    with face.consumer(bootstrap) as consumer:
        assert consumer.partitions_for(topic) == [0, 1]
        assert consumer.beginning_offsets(both) == {(topic, 0): 0, (topic, 1): 0}
        assert consumer.end_offsets(both) == {(topic, 0): 10, (topic, 1): 0}
        moment = datetime.fromtimestamp((START_MS + 31) / 1000, UTC)
        found = consumer.offsets_for_times({(topic, 0): moment, (topic, 1): START_MS})
        assert found == {(topic, 0): (4, START_MS + 40), (topic, 1): None}


def test_an_offset_out_of_range_is_an_error_or_a_new_start(
    bootstrap: str, make_topic: MakeTopic, face: Face, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 3)
    with face.consumer(bootstrap, auto_offset_reset="none").assign([(topic, 0, 500)]) as consumer:
        for _ in range(2):  # until somebody seeks
            with pytest.raises(tailrace.ApiError, match=r"OFFSET_OUT_OF_RANGE: .* set auto_offset_reset"):
                take(consumer, 1)
        consumer.seek(topic, 0, 1)
        assert values(take(consumer, 2)) == [1, 2]
    with face.consumer(bootstrap, auto_offset_reset="earliest").assign([(topic, 0, 500)]) as consumer:
        assert values(take(consumer, 3)) == [0, 1, 2]
    assert fetcher_lines(caplog, topic) == [
        (logging.WARNING, "the leader of T does not have offset 500; looking up where reading continues"),
        (logging.WARNING, "reading of T continues at offset 0, as auto_offset_reset says"),
    ]


def test_a_position_that_the_next_leader_has_after_all_is_kept(
    bootstrap: str,
    make_topic: MakeTopic,
    face: Face,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A leader whose retention has gone further than that of the next one refuses it. All was read again then, and
    after that was mended the log still said so.
    """
    caplog.set_level(logging.INFO, Fetcher.__module__)
    accept = Fetcher._accept
    refused: list[int] = []

    def refuse_once(self: Fetcher, state: Any, generation: int, offset: int, answer: FetchResponsePartition) -> Any:
        if offset == 5 and not refused:
            refused.append(offset)
            code = ErrorCode.OFFSET_OUT_OF_RANGE
            answer = FetchResponsePartition(partition_index=0, error_code=code, high_watermark=-1)
        return accept(self, state, generation, offset, answer)

    monkeypatch.setattr(Fetcher, "_accept", refuse_once)
    topic = make_topic()
    fill(bootstrap, topic, 5)
    with face.consumer(bootstrap, auto_offset_reset="earliest").assign([(topic, 0, 0)]) as consumer:
        assert values(take(consumer, 5)) == [0, 1, 2, 3, 4]
        fill(bootstrap, topic, 1)
        (record,) = take(consumer, 1)
        assert (record.offset, refused) == (5, [5])
    assert fetcher_lines(caplog, topic) == [
        (logging.WARNING, "the leader of T does not have offset 5; looking up where reading continues"),
        (logging.INFO, "reading of T continues at offset 5, which the leader has after all"),
    ]


def test_a_reset_may_be_a_time_ago(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic()
    now_ms = round(time.time() * 1000)
    with tailrace.Producer(bootstrap) as producer:
        for index, age_h in enumerate((50, 49, 3, 2)):
            producer.send(topic, b"%d" % index, timestamp_ms=now_ms - age_h * 3_600_000)
    with face.consumer(bootstrap, auto_offset_reset="by_duration:P1D").assign([(topic, 0, 500)]) as consumer:
        assert values(take(consumer, 2)) == [2, 3]
    with face.consumer(bootstrap, auto_offset_reset="by_duration:PT2H30M").subscribe(topic) as consumer:
        assert values(take(consumer, 1)) == [3]
    with face.consumer(bootstrap, auto_offset_reset="by_duration:PT1H").subscribe(topic) as consumer:
        assert consumer.poll(0) == []
        consumer.assign([(topic, 0)])
        assert consumer.position(topic, 0) == 4, "no record is as young"
    with pytest.raises(tailrace.ConfigError, match="by_duration:PT1H30M"):
        face.consumer(bootstrap, auto_offset_reset="by_duration:1h")


def make_again(bootstrap: str, topic: str) -> None:
    """Delete a topic and create it anew; brokers may take a moment for either."""
    deadline = Deadline(30_000)
    with tailrace.Admin(bootstrap) as admin:
        assert admin.delete_topics([topic]) == {topic: None}
        while isinstance(admin.create_topics([tailrace.NewTopic(topic, 1, 1)])[topic], tailrace.ApiError):
            assert not deadline.is_over


def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    bootstrap: str, make_topic: MakeTopic, face: Face
) -> None:
    """Offset 3 of the old topic was taken for offset 3 of the new one, and what lay before was skipped."""
    topic = make_topic()
    fill(bootstrap, topic, 3)
    with face.consumer(bootstrap, auto_offset_reset="latest").assign([(topic, 0, 0)]) as consumer:
        assert values(take(consumer, 3)) == [0, 1, 2]
        make_again(bootstrap, topic)
        fill(bootstrap, topic, 7)
        assert values(take(consumer, 7)) == [0, 1, 2, 3, 4, 5, 6]


def test_without_a_reset_a_topic_that_is_made_again_is_an_error(
    bootstrap: str, make_topic: MakeTopic, face: Face
) -> None:
    topic = make_topic()
    fill(bootstrap, topic, 3)
    with face.consumer(bootstrap, auto_offset_reset="none").assign([(topic, 0, 0)]) as consumer:
        assert values(take(consumer, 3)) == [0, 1, 2]
        make_again(bootstrap, topic)
        fill(bootstrap, topic, 7)
        with pytest.raises(OffsetMissing, match=f"{topic}-0 was deleted and created again"):
            take(consumer, 1)
        consumer.seek(topic, 0, 5)
        assert values(take(consumer, 2)) == [5, 6]


def test_lag_is_what_is_left_to_hand_out(bootstrap: str, make_topic: MakeTopic, face: Face) -> None:
    topic = make_topic(2)
    fill(bootstrap, topic, 10)
    with face.consumer(bootstrap, max_poll_records=4).assign([(topic, 0, 0), (topic, 1, 0)]) as consumer:
        assert consumer.lag() == {(topic, 0): None, (topic, 1): None}
        assert len(take(consumer, 4)) == 4
        assert consumer.lag()[topic, 0] == 6
        assert len(take(consumer, 6)) == 6
        assert consumer.lag()[topic, 0] == 0
        consumer.seek(topic, 0, 3)
        assert consumer.lag()[topic, 0] == 7
        consumer.seek(topic, 0, "latest")
        assert consumer.lag()[topic, 0] is None, "nobody has asked where that is"


@pytest.mark.parametrize(
    ("isolation", "last_stable_offset", "end"),
    [
        (Isolation.READ_UNCOMMITTED, 4, 9),
        (Isolation.READ_COMMITTED, 4, 4),
        (Isolation.READ_COMMITTED, -1, 9),
    ],
)
def test_what_is_left_is_what_may_be_read(isolation: Isolation, last_stable_offset: int, end: int) -> None:
    answer = FetchResponsePartition(partition_index=0, high_watermark=9, last_stable_offset=last_stable_offset)
    assert readable_end(answer, isolation) == end


def test_what_is_not_there_is_one_clear_error(bootstrap: str, make_topic: MakeTopic, topic: str, face: Face) -> None:
    with face.consumer(bootstrap).subscribe(f"{topic}-missing") as consumer:
        with pytest.raises(tailrace.ApiError, match=f"UNKNOWN_TOPIC_OR_PARTITION: topic {topic}-missing"):
            take(consumer, 1)
    make_topic()
    with face.consumer(bootstrap).assign([(topic, 7, 0)]) as consumer:
        with pytest.raises(tailrace.ApiError, match="has 1 partitions, none with the number 7"):
            take(consumer, 1)
    with face.consumer("127.0.0.1:1").subscribe(topic) as consumer:
        with pytest.raises(BootstrapError, match="cannot connect"):
            take(consumer, 1)


def test_what_says_nothing_is_refused(bootstrap: str) -> None:
    with tailrace.Consumer(bootstrap, auto_offset_reset="none") as consumer:
        with pytest.raises(ValueError, match="gives subscribe no start"):
            consumer.subscribe("t")
        with pytest.raises(ValueError, match="gives t-0 no start"):
            consumer.assign([("t", 0)])
    with tailrace.Consumer(bootstrap) as consumer:
        with pytest.raises(ValueError, match="subscribe needs the name of a topic"):
            consumer.subscribe([])


def test_partitions_that_appear_are_read_from_their_beginning(
    bootstrap: str, make_topic: MakeTopic, face: Face
) -> None:
    topic = make_topic(1)
    with face.consumer(bootstrap, metadata_max_age_ms=50).subscribe(topic) as consumer:
        assert consumer.poll(0.2) == []
        with tailrace.Admin(bootstrap) as admin:
            admin.create_partitions({topic: 2})
        with tailrace.Producer(bootstrap, metadata_max_age_ms=50) as producer:
            producer.send(topic, b"7", partition=1).result(60)
        (record,) = take(consumer, 1)
        assert (record.partition, record.value) == (1, b"7")


def test_closing_wakes_whoever_waits(bootstrap: str, make_topic: MakeTopic) -> None:
    consumer = tailrace.Consumer(bootstrap).subscribe(make_topic())
    assert consumer.poll(0.05) == []
    found: list[BaseException] = []

    def wait() -> None:
        try:
            next(consumer)
        except ClientClosed as error:
            found.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    consumer.close()
    waiting.join(60)
    assert len(found) == 1
    with pytest.raises(ClientClosed):
        consumer.poll(0)
