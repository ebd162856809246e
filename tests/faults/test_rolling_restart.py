"""All brokers of a cluster are restarted one after the other under load; clients with their defaults hear nothing."""

import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.storm_network import Network
from tests.faults.storm_process import Cluster
from tests.unit.coordination.zookeeper_process import require_zookeeper

import tailrace

TOPIC = "rolling"
PARTITION_COUNT = 3
STEP_TIMEOUT_S = 180
OPTIONS = {"controlled.shutdown.retry.backoff.ms": "500"}


class Load:
    """Two producers, each with its client's defaults but for idempotence and acks, and what they were told."""

    def __init__(self, servers: str) -> None:
        self.sent_count = 0
        self.errors: list[str] = []
        self.acknowledged: set[bytes] = set()
        self._confluent = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._tailrace = tailrace.Producer(servers)

    def send(self) -> None:
        for _ in range(PARTITION_COUNT * 4):
            self.sent_count += 1
            partition = self.sent_count % PARTITION_COUNT
            first, second = b"confluent %d" % self.sent_count, b"tailrace %d" % self.sent_count
            self._confluent.produce(TOPIC, first, partition=partition, on_delivery=self._confluent_told)
            future = self._tailrace.send(TOPIC, second, partition=partition)
            future.add_done_callback(partial(self._tailrace_told, second))
        self._confluent.poll(0.02)

    def _confluent_told(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is not None:
            self.errors.append(f"confluent-kafka: {error}")
        else:
            assert value is not None
            self.acknowledged.add(value)

    def _tailrace_told(self, value: bytes, done: Future[tailrace.RecordMetadata]) -> None:
        if error := done.exception():
            self.errors.append(f"tailrace: {error!r}")
        else:
            self.acknowledged.add(value)

    def finish(self) -> None:
        assert self._confluent.flush(STEP_TIMEOUT_S) == 0
        self._tailrace.close(STEP_TIMEOUT_S)


def is_whole(admin: AdminClient) -> bool:
    """Whether every replica is in sync."""
    partitions = admin.list_topics(TOPIC, timeout=STEP_TIMEOUT_S).topics[TOPIC].partitions.values()
    return all(len(partition.isrs) == 3 for partition in partitions)


def read_all(servers: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITION_COUNT)])
    values: list[bytes] = []
    deadline_s = time.monotonic() + STEP_TIMEOUT_S
    while len(values) < count and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
    values += [message.value() or b"" for message in consumer.consume(1000, 0.5)]
    consumer.close()
    return values


@pytest.mark.slow
def test_a_rolling_restart_costs_clients_no_error(tmp_path: Path) -> None:
    require_zookeeper()
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    cluster = Cluster(tmp_path, Network(), OPTIONS, server_count=1)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(TOPIC, PARTITION_COUNT, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(STEP_TIMEOUT_S)
        load = Load(cluster.bootstrap_servers)
        for broker in cluster.brokers.values():
            load.send()
            broker.terminate()
            while broker.is_running:
                load.send()
            broker.launch()
            while not (broker.is_ready and is_whole(admin)):
                load.send()
        load.finish()
        assert load.errors == []
        assert len(load.acknowledged) == 2 * load.sent_count
        values = read_all(cluster.bootstrap_servers, len(load.acknowledged))
        assert len(values) == len(load.acknowledged)
        assert set(values) == load.acknowledged
        for broker in cluster.brokers.values():
            assert "Traceback" not in broker.log
    finally:
        cluster.end()
