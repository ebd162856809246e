"""What a producer does when things go wrong: nothing twice, nothing out of order, nothing for ever."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker

import tailrace
from tailrace.client.error import BufferFull, ClientClosed, DeliveryTimeout
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

QUICK: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 20}


@pytest.fixture
def lossy() -> Iterator[tuple[LossyProxy, Broker]]:
    """A broker that clients reach through a proxy only."""
    with lossy_broker() as both:
        yield both


def numbers(broker: Broker, topic: str, partition: int = 0) -> list[int]:
    return [int(record.value or b"") for record in broker.consume(topic, [partition])]


@pytest.mark.exact
@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_lost_reply_makes_no_duplicate_and_no_disorder(
    lossy: tuple[LossyProxy, Broker], topic: str, face: Face, in_flight: int
) -> None:
    proxy, broker = lossy
    broker.create_topic(topic)
    settings = {**QUICK, "batch_size": 300, "linger_ms": 0, "max_in_flight_requests_per_connection": in_flight}
    with face.producer(broker.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"0").result(20)
        proxy.lose(ApiKey.PRODUCE, *[False, True, False, True, True, False, False, True])
        futures = [producer.send(topic, b"%d" % index) for index in range(1, 200)]
        producer.flush()
        assert proxy.lost_count == 4
        offsets = [future.result(20).offset for future in futures]
    assert numbers(broker, topic) == list(range(200))
    # A duplicate that the broker remembers has its offset, an older one has none.
    assert all(offset in (index, -1) for index, offset in enumerate(offsets, 1))


def test_without_idempotence_a_lost_reply_makes_duplicates(lossy: tuple[LossyProxy, Broker], topic: str) -> None:
    """The proxy does lose replies of what was written: else the test above would prove nothing."""
    proxy, broker = lossy
    broker.create_topic(topic)
    with tailrace.Producer(broker.bootstrap_servers, enable_idempotence=False, **QUICK) as producer:
        producer.send(topic, b"0").result(20)
        proxy.lose(ApiKey.PRODUCE, True)
        producer.send(topic, b"1").result(20)
    assert numbers(broker, topic) == [0, 1, 1]


@pytest.mark.parametrize("fault", [{"error": "NOT_LEADER_OR_FOLLOWER"}, {"drop": True}], ids=["error", "drop"])
@pytest.mark.parametrize("api", ["PRODUCE", "INIT_PRODUCER_ID", "METADATA"])
def test_what_passes_is_waited_for(
    tailrace_broker: Broker, topic: str, face: Face, api: str, fault: dict[str, object]
) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, batch_size=300, linger_ms=0, **QUICK) as producer:
        if api == "METADATA":
            producer.send(topic, b"0").result(20)
            injected = tailrace_broker.inject("PRODUCE", error="NOT_LEADER_OR_FOLLOWER", count=1)
            tailrace_broker.inject(api, count=2, **fault)  # type: ignore[arg-type]
        else:
            injected = tailrace_broker.inject(api, count=2, **fault)  # type: ignore[arg-type]
            producer.send(topic, b"0")
        futures = [producer.send(topic, b"%d" % index) for index in range(1, 50)]
        producer.flush()
        assert [future.result(20).offset for future in futures] == list(range(1, 50))
        assert injected.hits >= 1
    tailrace_broker.clear_faults()
    assert numbers(tailrace_broker, topic) == list(range(50))


@pytest.mark.parametrize("code", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"])
def test_a_forgotten_producer_starts_over(tailrace_broker: Broker, topic: str, face: Face, code: str) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, batch_size=300, linger_ms=0, **QUICK) as producer:
        producer.send(topic, b"0").result(20)
        injected = tailrace_broker.inject("PRODUCE", error=code, count=3)
        futures = [producer.send(topic, b"%d" % index) for index in range(1, 50)]
        producer.flush()
        assert [future.result(20).offset for future in futures] == list(range(1, 50))
        assert injected.hits == 3
    assert numbers(tailrace_broker, topic) == list(range(50))


def test_a_duplicate_is_a_success(tailrace_broker: Broker, topic: str, face: Face) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, **QUICK) as producer:
        tailrace_broker.inject("PRODUCE", error="DUPLICATE_SEQUENCE_NUMBER")
        assert producer.send(topic, b"0").result(20).offset == -1


def test_what_is_refused_for_good_fails_and_the_rest_goes_on(tailrace_broker: Broker, topic: str, face: Face) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, batch_size=1, linger_ms=0, **QUICK) as producer:
        producer.send(topic, b"0").result(20)
        tailrace_broker.inject("PRODUCE", error="TOPIC_AUTHORIZATION_FAILED")
        futures = [producer.send(topic, b"%d" % index) for index in range(1, 20)]
        producer.flush()
        errors = [future.exception(20) for future in futures]
        failed = [index for index, error in enumerate(errors, 1) if error is not None]
        assert len(failed) == 1
        assert "TOPIC_AUTHORIZATION_FAILED" in str(errors[failed[0] - 1])
    assert numbers(tailrace_broker, topic) == [index for index in range(20) if index not in failed]


def test_what_does_not_pass_in_time_fails_and_later_records_are_written(
    tailrace_broker: Broker, topic: str, face: Face
) -> None:
    tailrace_broker.create_topic(topic)
    settings = {**QUICK, "linger_ms": 0, "request_timeout_ms": 2_000, "delivery_timeout_ms": 3_000}
    with face.producer(tailrace_broker.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"0").result(20)
        tailrace_broker.inject("PRODUCE", error="NOT_ENOUGH_REPLICAS", count=None)
        error = producer.send(topic, b"1").exception(20)
        assert isinstance(error, DeliveryTimeout | tailrace.ApiError)
        tailrace_broker.clear_faults()
        assert producer.send(topic, b"2").result(20).offset == 1
    assert numbers(tailrace_broker, topic) == [0, 2]


def test_a_broker_that_hangs_is_given_up(tailrace_broker: Broker, topic: str, face: Face) -> None:
    tailrace_broker.create_topic(topic)
    settings = {**QUICK, "linger_ms": 0, "request_timeout_ms": 500, "delivery_timeout_ms": 60_000}
    with face.producer(tailrace_broker.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"0").result(20)
        injected = tailrace_broker.inject("PRODUCE", delay=1.0, count=1)
        assert producer.send(topic, b"1").result(60).offset in (1, -1)
        assert injected.hits == 1
    assert numbers(tailrace_broker, topic) == [0, 1]


def test_a_restart_of_the_broker_is_waited_for(tailrace_broker: Broker, topic: str, face: Face) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, batch_size=300, linger_ms=0, **QUICK) as producer:
        futures = [producer.send(topic, b"%d" % index) for index in range(50)]
        tailrace_broker.restart()
        futures += [producer.send(topic, b"%d" % index) for index in range(50, 100)]
        producer.flush(30)
        assert all(future.exception(0 if face.name == "thread" else 5) is None for future in futures)
    assert numbers(tailrace_broker, topic) == list(range(100))


def test_memory_that_stays_full_is_an_error_with_the_options_to_change(
    tailrace_broker: Broker, topic: str, face: Face
) -> None:
    tailrace_broker.create_topic(topic)
    settings = {**QUICK, "buffer_memory": 1000, "max_block_ms": 2_000, "batch_size": 200}
    with face.producer(tailrace_broker.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"x").result(20)
        tailrace_broker.inject("PRODUCE", error="NOT_ENOUGH_REPLICAS", count=None)
        for _ in range(7):  # 114 bytes each, and 61 for each batch
            producer.send(topic, b"x" * 70)
        with pytest.raises(BufferFull, match=r"buffer_memory \(1000\) .* \(max_block_ms\)"):
            producer.send(topic, b"x" * 900)
        tailrace_broker.clear_faults()


def test_a_sender_waits_for_memory(tailrace_broker: Broker, topic: str, face: Face) -> None:
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, buffer_memory=2000, batch_size=500, **QUICK) as producer:
        for index in range(500):
            producer.send(topic, b"%d" % index)
    assert numbers(tailrace_broker, topic) == list(range(500))


def test_a_table_waits_for_memory(tailrace_broker: Broker, topic: str, face: Face) -> None:
    pa = pytest.importorskip("pyarrow")
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, buffer_memory=2000, batch_size=500, **QUICK) as producer:
        table = pa.table({"value": [str(index) for index in range(500)]})
        assert producer.send_table(topic, table).result(20).record_count == 500
    assert numbers(tailrace_broker, topic) == list(range(500))


def test_a_table_that_cannot_be_written_fails_as_a_whole(tailrace_broker: Broker, topic: str, face: Face) -> None:
    pa = pytest.importorskip("pyarrow")
    tailrace_broker.create_topic(topic)
    with face.producer(tailrace_broker.bootstrap_servers, **QUICK) as producer:
        tailrace_broker.inject("PRODUCE", error="TOPIC_AUTHORIZATION_FAILED")
        future = producer.send_table(topic, pa.table({"value": [b"v"]}))
        with pytest.raises(tailrace.ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
            future.result(20)


def test_closing_in_time_gives_up_what_is_left(tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.create_topic(topic)
    producer = tailrace.Producer(tailrace_broker.bootstrap_servers, **QUICK)
    producer.send(topic, b"0").result(20)
    tailrace_broker.inject("PRODUCE", error="NOT_ENOUGH_REPLICAS", count=None)
    future = producer.send(topic, b"1")
    with pytest.raises(tailrace.ClientError, match=r"within 0\.01 s"):
        producer.flush(0.01)
    producer.close(0.01)
    with pytest.raises(ClientClosed, match="before the record was acknowledged"):
        future.result(0)


def test_a_callback_may_send_but_not_wait(tailrace_broker: Broker, topic: str) -> None:
    tailrace_broker.create_topic(topic)
    done = threading.Event()
    with tailrace.Producer(tailrace_broker.bootstrap_servers, linger_ms=0) as producer:

        def again(future: object) -> None:
            with pytest.raises(RuntimeError, match="must not wait"):
                producer.flush()
            with pytest.raises(RuntimeError, match="must not wait"):
                producer.send("another topic", b"1")
            producer.send(topic, b"1", on_delivery=lambda _: done.set())

        producer.send(topic, b"0", on_delivery=again)
        assert done.wait(20)
    assert numbers(tailrace_broker, topic) == [0, 1]
