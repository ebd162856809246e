"""kill -9 under load, again and again: every acknowledged record is there, once and in order.

A real process, a real idempotent producer with acks=all that never stops, and a port that
stays the same, as an operator who restarts a broker would have it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.broker_process import BrokerProcess
from tests.faults.live import wait_until

pytestmark = [pytest.mark.exact, pytest.mark.slow]

KILL_COUNT = 10
PARTITION_COUNT = 2
TOPIC = "killed"


class Load:
    """An idempotent producer that sends numbered records without a pause, and what was acknowledged of them."""

    def __init__(self, address: str) -> None:
        self.acknowledged: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(PARTITION_COUNT)}
        self.failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "batch.num.messages": 50,
                "compression.type": "lz4",
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "message.timeout.ms": 60_000,
                "logger": _quiet(),
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = b"%d " % number + os.urandom(200)
            try:
                self._producer.produce(TOPIC, value, partition=number % PARTITION_COUNT, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.01)
                continue
            number += 1
            self._producer.poll(0)
            if number % 100 == 0:
                time.sleep(0.002)  # a load, not a flood: the broker shares its processors with other tests

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self.acknowledged[message.partition() or 0].append((message.offset() or 0, message.value() or b""))

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0


def _quiet() -> object:
    import logging

    logger = logging.getLogger("librdkafka")
    logger.setLevel(logging.CRITICAL)  # it tells of every lost connection, of which there are many here
    return logger


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    yield broker
    broker.kill()


def _create(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for outcome in admin.create_topics([NewTopic(TOPIC, PARTITION_COUNT, 1)]).values():
        outcome.result(60)


def _consume(address: str) -> dict[int, list[tuple[int, bytes]]]:
    """Everything in the topic, by partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(PARTITION_COUNT)}
    partitions = [TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in found]
    ends = {index: consumer.get_watermark_offsets(TopicPartition(TOPIC, index), 60)[1] for index in found}
    consumer.assign(partitions)
    while any(len(found[index]) < ends[index] for index in found):
        for message in consumer.consume(5000, 0.2):
            assert message.error() is None, message.error()
            found[message.partition() or 0].append((message.offset() or 0, message.value() or b""))
    consumer.close()
    return found


def wait_for_records(load: Load, count: int, what: str) -> None:
    """Wait until the producer has sent that many more, or has failed."""
    wanted = load.count + count
    wait_until(lambda: load.count >= wanted or load.failures, what)


def test_every_acknowledged_record_survives_being_killed_again_and_again(process: BrokerProcess) -> None:
    _create(process.address)
    load = Load(process.address)
    chance = random.Random(9)
    for _ in range(KILL_COUNT):
        wait_for_records(load, chance.randrange(500, 3000), "the producer gets on")
        process.kill()
        process.start()
    wait_for_records(load, 500, "it gets on after the last kill")
    load.stop()
    assert load.failures == []
    found = _consume(process.address)
    for partition, acknowledged in load.acknowledged.items():
        stored = found[partition]
        assert [offset for offset, _ in stored] == list(range(len(stored))), "no offset is missing"
        numbers = [int(value.split(b" ", 1)[0]) for _, value in stored]
        assert numbers == sorted(set(numbers)), "each record is there once, in the order it was sent"
        contents = dict(stored)
        assert all(contents.get(offset) == value for offset, value in acknowledged)
        assert len(acknowledged) == len(stored), "everything was acknowledged in the end"
    assert process.log.count("was not stopped cleanly") == KILL_COUNT
    assert "Traceback" not in process.log


def test_a_clean_stop_in_between_recovers_nothing(process: BrokerProcess) -> None:
    _create(process.address)
    load = Load(process.address)
    wait_until(lambda: load.count >= 500, "records are there")
    load.stop()
    before = _consume(process.address)
    assert process.stop() == 0
    process.start()
    assert _consume(process.address) == before
    assert "was not stopped cleanly" not in process.log
