"""Each kind of fault as two real clients meet it: confluent-kafka (librdkafka) and kafka-python."""

import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as ConfluentProducer

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.errors import ErrorCode
from tailrace.testing import Broker
from tailrace.testing.fault import Faults, read_fault

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas with calls that Python 3.11 deprecates
    from kafka.errors import InvalidTopicError, KafkaTimeoutError

    from kafka import KafkaProducer

Send = Callable[[bytes], int]


@contextmanager
def confluent(broker: Broker, topic: str) -> Iterator[Send]:
    """Send one record and return its offset, or raise the error that the client reports."""
    producer = ConfluentProducer(
        {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 20, "linger.ms": 0, "retries": 5}
    )

    def send(value: bytes) -> int:
        outcome: list[Any] = []
        producer.produce(topic, value, on_delivery=lambda error, message: outcome.append((error, message)))
        assert producer.flush(20) == 0
        error, message = outcome[0]
        if error is not None:
            raise KafkaException(error)
        return int(message.offset())

    yield send


@contextmanager
def kafka_python(broker: Broker, topic: str) -> Iterator[Send]:
    """The same with kafka-python."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retries=5, retry_backoff_ms=20)
    with closing(producer):
        yield lambda value: int(producer.send(topic, value).get(20).offset)


@pytest.fixture
def topic(tailrace_broker: Broker) -> str:
    name = f"faults-{uuid.uuid4()}"
    tailrace_broker.create_topic(name)
    return name


both_clients = pytest.mark.parametrize("client", [confluent, kafka_python])


@both_clients
def test_a_retriable_error_is_retried_and_the_record_is_written_once(
    tailrace_broker: Broker, topic: str, client: Any
) -> None:
    with client(tailrace_broker, topic) as send:
        assert send(b"before") == 0
        fault = tailrace_broker.inject(api="PRODUCE", error="NOT_ENOUGH_REPLICAS", count=2)
        assert send(b"during") == 1
    assert fault.hits == 2
    assert [record.value for record in tailrace_broker.consume(topic)] == [b"before", b"during"]


@pytest.mark.parametrize(
    ("client", "failure"), [(confluent, KafkaException), (kafka_python, InvalidTopicError)], ids=["confluent", "kafka"]
)
def test_a_final_error_reaches_the_caller(
    tailrace_broker: Broker, topic: str, client: Any, failure: type[Exception]
) -> None:
    with client(tailrace_broker, topic) as send:
        send(b"before")
        tailrace_broker.inject(api="Produce", error=ErrorCode.INVALID_TOPIC_EXCEPTION)
        with pytest.raises(failure) as caught:
            send(b"refused")
        if isinstance(caught.value, KafkaException):
            assert caught.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
    # Some clients end an idempotent producer after such an error, but the broker is as it was.
    tailrace_broker.produce(topic, [b"after"])
    assert [record.value for record in tailrace_broker.consume(topic)] == [b"before", b"after"]


@both_clients
def test_a_delay_holds_a_request_back(tailrace_broker: Broker, topic: str, client: Any) -> None:
    with client(tailrace_broker, topic) as send:
        send(b"before")
        fault = tailrace_broker.inject(api="PRODUCE", delay=0.3)
        began_s = time.monotonic()
        assert send(b"late") == 1
        assert time.monotonic() - began_s >= 0.3  # a lower bound holds on any machine
    assert fault.hits == 1


@both_clients
def test_a_dropped_connection_is_opened_again(tailrace_broker: Broker, topic: str, client: Any) -> None:
    with client(tailrace_broker, topic) as send:
        send(b"before")
        fault = tailrace_broker.inject(api="PRODUCE", drop=True)
        assert send(b"again") == 1
    assert fault.hits == 1
    # The fault comes before the handler, so the first attempt left nothing behind.
    assert [record.value for record in tailrace_broker.consume(topic)] == [b"before", b"again"]


def test_a_fault_without_count_lasts_until_it_is_cleared(tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.inject(api="METADATA", error="LEADER_NOT_AVAILABLE", count=None)
    producer = KafkaProducer(
        bootstrap_servers=tailrace_broker.bootstrap_servers, max_block_ms=1000, retry_backoff_ms=50
    )
    with closing(producer), pytest.raises(KafkaTimeoutError):
        producer.send(topic, b"never")
    tailrace_broker.clear_faults()
    tailrace_broker.produce(topic, [b"now"])
    assert [record.value for record in tailrace_broker.consume(topic)] == [b"now"]


def test_faults_are_met_in_the_order_they_were_set(tailrace_broker: Broker, topic: str) -> None:
    first = tailrace_broker.inject(api="PRODUCE", error="NOT_LEADER_OR_FOLLOWER")
    second = tailrace_broker.inject(api="PRODUCE", drop=True)
    other = tailrace_broker.inject(api="DELETE_RECORDS", drop=True)
    tailrace_broker.produce(topic, [b"1"])
    assert (first.hits, second.hits, other.hits) == (1, 1, 0)


@pytest.mark.parametrize("spelling", ["LIST_OFFSETS", "ListOffsets", "list_offsets", 2, ApiKey.LIST_OFFSETS])
def test_an_api_may_be_spelled_in_kafkas_ways(spelling: str | int) -> None:
    assert read_fault(spelling, None, 1.0, False, 1).api is ApiKey.LIST_OFFSETS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("PRODUCE", None, 0.0, False, 1), "an error, a delay or a drop"),
        (("PRODUCE", "NOT_CONTROLLER", 0.0, True, 1), "cannot carry an error"),
        (("PRODUCE", "NO_SUCH_ERROR", 0.0, False, 1), "NO_SUCH_ERROR"),
        (("PRODUCE", "NONE", 0.0, False, 1), "NONE"),
        (("PRODUCE", 9999, 0.0, False, 1), "9999"),
        (("PRODUCE", None, -1.0, False, 1), "delay"),
        (("PRODUCE", None, 1.0, False, 0), "0 requests"),
        (("NO_SUCH_API", None, 1.0, False, 1), "NO_SUCH_API"),
        ((9999, None, 1.0, False, 1), "9999"),
        (("VOTE", None, 1.0, False, 1), "does not serve VOTE"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_fault(*arguments)


def test_faults_can_be_cleared_from_any_thread() -> None:
    faults = Faults()
    faults.add(read_fault("PRODUCE", None, 1.0, False, None))
    faults.clear()
    assert faults._take(ApiKey.PRODUCE) is None
