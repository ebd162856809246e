"""kill -9 of the broker while a group works: the group finds itself again, no record is lost, no commit goes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.broker_process import BrokerProcess
from tests.faults.live import wait_until

pytestmark = [pytest.mark.exact, pytest.mark.slow]

TOPIC = "shared"
PARTITIONS = [TopicPartition(TOPIC, index) for index in range(4)]
RECORD_COUNT = 4000
STEP_TIMEOUT_S = 60


class Member(threading.Thread):
    """Reads what it is given and commits after each poll."""

    def __init__(self, address: str, seen: set[int]) -> None:
        super().__init__(daemon=True)
        settings = {
            "bootstrap.servers": address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self.consumer = Consumer(settings)
        self.consumer.subscribe([TOPIC])
        self.seen = seen
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            messages = [message for message in self.consumer.consume(100, 0.1) if not message.error()]
            for message in messages:
                value = message.value()
                assert value is not None
                self.seen.add(int(value))
            if messages:
                try:
                    self.consumer.commit(asynchronous=False)
                except KafkaException:
                    # The broker is away or the group has moved on; whoever gets the partitions reads them again.
                    continue
        self.consumer.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    process.start()
    yield process
    assert process.stop() == 0


def committed(address: str) -> list[int]:
    reader = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    try:
        return [max(found.offset, 0) for found in reader.committed(PARTITIONS, timeout=STEP_TIMEOUT_S)]
    finally:
        reader.close()


def test_a_group_survives_its_broker(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, len(PARTITIONS), 1)])[TOPIC].result(STEP_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0, "enable.idempotence": True})
    seen: set[int] = set()
    members = [Member(broker.address, seen) for _ in range(2)]
    for member in members:
        member.start()
    for number in range(RECORD_COUNT // 2):
        producer.produce(TOPIC, str(number).encode())
    producer.flush(STEP_TIMEOUT_S)
    wait_until(lambda: len(seen) == RECORD_COUNT // 2, "the first half is read")
    wait_until(lambda: sum(committed(broker.address)) == RECORD_COUNT // 2, "and committed")
    before = committed(broker.address)
    broker.kill()
    for number in range(RECORD_COUNT // 2, RECORD_COUNT):
        producer.produce(TOPIC, str(number).encode())
    broker.start()
    after = committed(broker.address)
    assert all(later >= earlier for earlier, later in zip(before, after, strict=True))
    assert producer.flush(STEP_TIMEOUT_S) == 0
    wait_until(lambda: seen == set(range(RECORD_COUNT)), "all is read")
    wait_until(lambda: sum(committed(broker.address)) == RECORD_COUNT, "and committed")
    for member in members:
        member.ending.set()
    for member in members:
        member.join(STEP_TIMEOUT_S)
