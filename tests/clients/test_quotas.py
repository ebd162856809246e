"""Quotas as real clients meet them: librdkafka, Java's producer tool and `kafka-configs.sh`.

A test of a rate asserts that the client was not faster than its quota allows, by the measured time. That holds on a
slow machine too.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest
from bench.cache import Unavailable
from bench.kafka import kafka_classpath
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.clients.conftest import TARGET

import tailrace
from tailrace.testing import Broker

pytestmark = pytest.mark.slow

if TARGET == "kafka":
    pytest.skip("the rates are those of token buckets", allow_module_level=True)

RATE = 200_000
MESSAGE_BYTES = 20_000
MESSAGE_COUNT = 40
REQUEST_BYTES_MAX = 60_000
BURST_S = 1.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def client_id() -> str:
    return f"client-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)
    return name


def limit(bootstrap: str, client_id: str, **quotas: float) -> None:
    with tailrace.Admin(bootstrap) as admin:
        (error,) = admin.alter_client_quotas({tailrace.QuotaEntity(client_id=client_id): quotas}).values()
        assert error is None


def produce(bootstrap: str, topic: str, client_id: str) -> tuple[float, list[float]]:
    """Produce all messages: the seconds that it took, and the pauses that the client was told of."""
    throttles: list[float] = []
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": REQUEST_BYTES_MAX // 2,
            "message.max.bytes": REQUEST_BYTES_MAX,
            "linger.ms": 5,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    began = time.monotonic()
    for _ in range(MESSAGE_COUNT):
        producer.produce(topic, b"x" * MESSAGE_BYTES, callback=lambda error, _: failures.append(error))
    assert producer.flush(120) == 0
    elapsed_s = time.monotonic() - began
    producer.poll(0)
    assert failures == [None] * MESSAGE_COUNT
    return elapsed_s, throttles


def test_a_producer_of_librdkafka_keeps_its_rate(bootstrap: str, topic: str, client_id: str) -> None:
    limit(bootstrap, client_id, producer_byte_rate=RATE)
    elapsed_s, throttles = produce(bootstrap, topic, client_id)
    # The last request may be served before its bytes are paid for.
    paid_bytes = MESSAGE_COUNT * MESSAGE_BYTES - REQUEST_BYTES_MAX
    assert elapsed_s >= paid_bytes / RATE - BURST_S
    assert max(throttles) > 0
    _, others = produce(bootstrap, topic, f"{client_id}-other")
    assert not any(others)


def test_a_consumer_of_librdkafka_keeps_its_rate(bootstrap: str, topic: str, client_id: str) -> None:
    produce(bootstrap, topic, f"{client_id}-writer")
    limit(bootstrap, client_id, consumer_byte_rate=RATE)
    throttles: list[float] = []
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    began = time.monotonic()
    offsets: list[int | None] = []
    while len(offsets) < MESSAGE_COUNT and time.monotonic() < began + 120:
        for message in consumer.consume(MESSAGE_COUNT, 1.0):
            assert message.error() is None
            offsets.append(message.offset())
    elapsed_s = time.monotonic() - began
    consumer.close()
    assert offsets == list(range(MESSAGE_COUNT))
    paid_bytes = MESSAGE_COUNT * MESSAGE_BYTES - REQUEST_BYTES_MAX
    assert elapsed_s >= paid_bytes / RATE - BURST_S
    assert max(throttles) > 0


# --- Java


def java(main: str, *arguments: str) -> tuple[int, str, str]:
    try:
        classpath = kafka_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(classpath.command(main, *arguments), capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stdout, done.stderr


def configs(bootstrap: str, *arguments: str) -> tuple[int, str, str]:
    return java("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *arguments)


def test_kafka_configs_sets_shows_and_deletes_quotas(bootstrap: str) -> None:
    pair = ("--entity-type", "users", "--entity-name", "al/ice", "--entity-type", "clients", "--entity-name", "c 1")
    added = "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=200.5"
    assert configs(bootstrap, "--alter", "--add-config", added, *pair)[0] == 0
    shown = "Quota configs for user-principal 'al/ice', client-id 'c 1' are "
    _, output, _ = configs(bootstrap, "--describe", "--entity-type", "users", "--entity-type", "clients")
    assert output.startswith(shown)
    assert set(output.removeprefix(shown).strip().split(", ")) == {
        "producer_byte_rate=1024.0",
        "consumer_byte_rate=2048.0",
        "request_percentage=200.5",
    }
    removed = "producer_byte_rate,consumer_byte_rate"
    assert configs(bootstrap, "--alter", "--delete-config", removed, *pair)[0] == 0
    assert configs(bootstrap, "--describe", *pair)[1] == f"{shown}request_percentage=200.5\n"
    status, _, error = configs(bootstrap, "--alter", "--add-config", "producer_byte_rate=0", *pair)
    assert status == 1
    assert "Quota producer_byte_rate must be greater than 0" in error


def test_kafka_configs_knows_defaults_and_addresses(bootstrap: str) -> None:
    default = ("--entity-type", "users", "--entity-default")
    assert configs(bootstrap, "--alter", "--add-config", "controller_mutation_rate=1000", *default)[0] == 0
    address = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
    assert configs(bootstrap, "--alter", "--add-config", "connection_creation_rate=50", *address)[0] == 0
    _, output, _ = configs(bootstrap, "--describe", "--entity-type", "users")
    assert "Quota configs for the default user-principal are controller_mutation_rate=1000.0\n" in output
    _, output, _ = configs(bootstrap, "--describe", "--entity-type", "ips")
    assert output == "Quota configs for ip '10.0.0.1' are connection_creation_rate=50.0\n"
    assert configs(bootstrap, "--alter", "--delete-config", "controller_mutation_rate", *default)[0] == 0


def test_the_java_producer_keeps_its_rate(bootstrap: str, topic: str, client_id: str) -> None:
    limit(bootstrap, client_id, producer_byte_rate=RATE)
    properties = (f"bootstrap.servers={bootstrap}", f"client.id={client_id}", f"batch.size={REQUEST_BYTES_MAX // 2}")
    began = time.monotonic()
    status, output, error = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(MESSAGE_COUNT), "--record-size", str(MESSAGE_BYTES)),
        *("--throughput", "-1", "--print-metrics", "--producer-props", *properties),
    )
    elapsed_s = time.monotonic() - began
    assert status == 0, error
    assert elapsed_s >= (MESSAGE_COUNT * MESSAGE_BYTES - REQUEST_BYTES_MAX) / RATE - BURST_S
    (line,) = [line for line in output.splitlines() if line.startswith("producer-metrics:produce-throttle-time-max")]
    assert float(line.rpartition(":")[2]) > 0
