"""What a producer does if a batch was written, its reply was lost, and the repetition is refused.

The promises: an acknowledged record is in the log, and no record is in it twice. A record whose fate the client cannot
know fails with an error that says so.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker
from tests.unit.client.produce.test_producer_fault import QUICK, numbers
from tests.unit.client.transaction.test_transaction import read

import tailrace
from tailrace.client.admin.core import ResourceType
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

pytestmark = pytest.mark.exact

PATIENT: dict[str, Any] = {**QUICK, "linger_ms": 60_000}
"""What is sent between two flushes is one batch."""
HOUR_MS = 3_600_000
LIMITS = [
    pytest.param({"max.message.bytes": "1000"}, id="MESSAGE_TOO_LARGE"),
    pytest.param({"message.timestamp.before.max.ms": str(HOUR_MS)}, id="INVALID_TIMESTAMP"),
]
MAY_BE_WRITTEN = "may be in the log"


@pytest.fixture(scope="module")
def module_lossy() -> Iterator[tuple[LossyProxy, Broker]]:
    with lossy_broker() as both:
        yield both


@pytest.fixture
def lossy(module_lossy: tuple[LossyProxy, Broker], topic: str) -> Iterator[tuple[LossyProxy, Broker]]:
    """A broker that clients reach through a proxy only, with a topic."""
    proxy, broker = module_lossy
    broker.create_topic(topic)
    proxy.lost_count = 0
    yield proxy, broker
    proxy.lose(ApiKey.PRODUCE)
    broker.clear_faults()


def value(number: int) -> bytes:
    return b"%0200d" % number


def send(producer: Any, topic: str, *wanted: int) -> list[Any]:
    """Send one batch of old records."""
    old_ms = int(time.time() * 1000) - 2 * HOUR_MS
    futures = [producer.send(topic, value(number), timestamp_ms=old_ms) for number in wanted]
    producer.flush()
    return futures


def send_new(producer: Any, topic: str, number: int) -> Any:
    future = producer.send(topic, value(number))
    producer.flush()
    return future


def lower(broker: Broker, topic: str, limits: dict[str, str]) -> None:
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs(ResourceType.TOPIC, topic, limits)


def offsets(futures: Sequence[Any]) -> list[int]:
    return [future.result(20).offset for future in futures]


@pytest.mark.parametrize("limits", LIMITS)
def test_a_written_batch_is_acknowledged_though_its_repetition_would_be_refused(
    lossy: tuple[LossyProxy, Broker], topic: str, face: Face, limits: dict[str, str]
) -> None:
    """The broker refused the repetition, and the client gave its number to the next record.

    The broker took that one for a duplicate and acknowledged it, and it was lost.
    """
    proxy, broker = lossy
    with face.producer(broker.bootstrap_servers, **PATIENT) as producer:
        assert offsets(send(producer, topic, 0)) == [0]
        proxy.lose(ApiKey.PRODUCE, True, then=lambda: lower(broker, topic, limits))
        written = send(producer, topic, 1, 2, 3, 4, 5, 6)
        after = send_new(producer, topic, 7)
        assert proxy.lost_count == 1
        assert offsets([*written, after]) == [1, 2, 3, 4, 5, 6, 7]
    assert numbers(broker, topic) == list(range(8))


@pytest.mark.usefixtures("generation")
@pytest.mark.parametrize("limits", LIMITS)
def test_a_written_batch_of_a_transaction_is_acknowledged_though_its_repetition_would_be_refused(
    lossy: tuple[LossyProxy, Broker], topic: str, face: Face, limits: dict[str, str]
) -> None:
    proxy, broker = lossy
    with face.producer(broker.bootstrap_servers, transactional_id=topic, **PATIENT) as producer:
        with producer.transaction():
            send(producer, topic, 0)
        proxy.lose(ApiKey.PRODUCE, True, then=lambda: lower(broker, topic, limits))
        with producer.transaction():
            send(producer, topic, 1, 2, 3, 4, 5, 6)
            send_new(producer, topic, 7)
        assert proxy.lost_count == 1
    assert read(broker.bootstrap_servers, topic) == [value(number) for number in range(8)]


@pytest.mark.parametrize("code", ["MESSAGE_TOO_LARGE", "INVALID_TIMESTAMP"])
@pytest.mark.parametrize("count", [1, 6])
def test_a_batch_in_doubt_fails_and_the_next_is_written(
    lossy: tuple[LossyProxy, Broker], topic: str, face: Face, code: str, count: int
) -> None:
    """Apache Kafka validates the repetition before it looks for a duplicate, as the injected error does.

    The next record got the number of the refused one and was lost; a batch that was split was written twice.
    """
    proxy, broker = lossy
    with face.producer(broker.bootstrap_servers, **PATIENT) as producer:
        assert offsets(send(producer, topic, 0)) == [0]
        proxy.lose(ApiKey.PRODUCE, True, then=lambda: refuse_next(broker, code))
        doubted = send(producer, topic, *range(1, count + 1))
        after = send_new(producer, topic, count + 1)
        for future in doubted:
            with pytest.raises(tailrace.ApiError, match=f"{code}.*{MAY_BE_WRITTEN}"):
                future.result(20)
        assert after.result(20).offset == count + 1
    assert numbers(broker, topic) == list(range(count + 2))


@pytest.mark.usefixtures("generation")
@pytest.mark.parametrize("code", ["MESSAGE_TOO_LARGE", "INVALID_TIMESTAMP"])
def test_a_batch_in_doubt_costs_its_transaction(
    lossy: tuple[LossyProxy, Broker], topic: str, face: Face, code: str
) -> None:
    proxy, broker = lossy
    with face.producer(broker.bootstrap_servers, transactional_id=topic, **PATIENT) as producer:
        with producer.transaction():
            send(producer, topic, 0)
        proxy.lose(ApiKey.PRODUCE, True, then=lambda: refuse_next(broker, code))
        producer.begin_transaction()
        for number in range(1, 7):
            producer.send(topic, value(number))
        with pytest.raises(tailrace.TransactionFailed, match=f"{code}.*{MAY_BE_WRITTEN}"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            send(producer, topic, 7)
    assert read(broker.bootstrap_servers, topic) == [value(0), value(7)]


def refuse_next(broker: Broker, code: str) -> None:
    broker.inject("PRODUCE", error=code)
