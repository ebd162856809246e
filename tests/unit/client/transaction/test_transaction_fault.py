"""Transactions when replies are lost and brokers refuse: each counts once, or is known not to."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.face import Face
from tests.unit.client.lossy_proxy import LossyProxy, lossy_broker
from tests.unit.client.produce.test_producer_fault import QUICK
from tests.unit.client.transaction.test_transaction import producer_of, read, write

import tailrace
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}
ASKED = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.PRODUCE,
    ApiKey.END_TXN,
)


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[LossyProxy, Broker]]:
    """A broker that clients reach through a proxy only."""
    with lossy_broker(**TWO_PHASE) as both:
        yield both


@pytest.fixture
def faulty(proxied: tuple[LossyProxy, Broker]) -> Iterator[tuple[LossyProxy, Broker]]:
    proxy, broker = proxied
    yield proxied
    for api in ASKED:
        proxy.lose(api)
    broker.clear_faults()


@pytest.mark.usefixtures("generation")
@pytest.mark.parametrize("seed", range(2))
def test_lost_replies_change_nothing(
    faulty: tuple[LossyProxy, Broker], topic: str, face: Face, seed: int, request: pytest.FixtureRequest
) -> None:
    """The older generation cannot tell a commit that is asked for again from one of the next transaction,

    but it is answered alike, because nothing was begun in between.
    """
    proxy, broker = faulty
    broker.create_topic(topic, 2)
    dice = random.Random(f"{seed}-{face.name}-{request.node.name}")
    group = tailrace.GroupMetadata(f"group-{topic}")
    committed, before = [], proxy.lost_count
    for api in ASKED:
        proxy.lose(api, *(dice.random() < 0.3 for _ in range(200)))
    with producer_of(face, broker.bootstrap_servers, topic, **QUICK_AND_SMALL) as producer:
        for number in range(20):
            values = [b"%03d-%d" % (number, index) for index in range(4)]
            producer.begin_transaction()
            for index, value in enumerate(values):
                producer.send(topic, value, partition=index % 2)
            producer.send_offsets({(topic, 0): number}, group)
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                committed += values
        assert proxy.lost_count > before
    for api in ASKED:
        proxy.lose(api)
    assert read(broker.bootstrap_servers, topic) == committed
    with tailrace.Admin(broker.bootstrap_servers) as admin:
        assert admin.list_group_offsets(group.group_id)[tailrace.TopicPartition(topic, 0)].offset == 19


QUICK_AND_SMALL: dict[str, Any] = {"retry_backoff_max_ms": QUICK["retry_backoff_max_ms"], "batch_size": 60}


@pytest.mark.usefixtures("generation")
@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"])
def test_what_passes_is_waited_for(faulty: tuple[LossyProxy, Broker], topic: str, face: Face, code: str) -> None:
    _, broker = faulty
    broker.create_topic(topic)
    faults = [
        broker.inject(api.name, error=code, count=2)
        for api in (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
    ]
    with producer_of(face, broker.bootstrap_servers, topic, **QUICK_AND_SMALL) as producer:
        with producer.transaction():
            producer.send(topic, b"a")
            producer.send_offsets({(topic, 0): 1}, tailrace.GroupMetadata(f"group-{topic}"))
    assert [fault.hits for fault in faults if fault.api is not ApiKey.ADD_PARTITIONS_TO_TXN] == [2, 2, 2]
    assert read(broker.bootstrap_servers, topic) == [b"a"]


@pytest.mark.usefixtures("generation")
@pytest.mark.parametrize("code", ["TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"])
def test_a_batch_that_is_refused_costs_one_transaction(
    faulty: tuple[LossyProxy, Broker], topic: str, face: Face, code: str
) -> None:
    _, broker = faulty
    broker.create_topic(topic)
    with producer_of(face, broker.bootstrap_servers, topic) as producer:
        write(producer, topic, b"a")
        broker.inject("PRODUCE", error=code)
        with pytest.raises(tailrace.TransactionFailed, match=code):
            write(producer, topic, b"lost", b"too")
        write(producer, topic, b"b")
    assert read(broker.bootstrap_servers, topic) == [b"a", b"b"]


@pytest.mark.parametrize("code", ["PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"])
def test_being_fenced_is_heard_of_at_the_commit(
    faulty: tuple[LossyProxy, Broker], topic: str, face: Face, code: str
) -> None:
    _, broker = faulty
    broker.create_topic(topic)
    with producer_of(face, broker.bootstrap_servers, topic) as producer:
        broker.inject("END_TXN", error=code)
        with pytest.raises(tailrace.ProducerFenced):
            write(producer, topic, b"a")
        with pytest.raises(tailrace.ProducerFenced):
            write(producer, topic, b"b")


@pytest.mark.parametrize("is_writing", [True, False])
def test_a_transaction_that_took_too_long_says_so_and_the_next_is_good(
    topic: str, face: Face, generation: str, is_writing: bool
) -> None:
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
    with Broker(quick) as broker, tailrace.Admin(broker.bootstrap_servers) as admin:
        broker.create_topic(topic)
        with producer_of(face, broker.bootstrap_servers, topic, transaction_timeout_ms=200) as producer:
            producer.begin_transaction()
            producer.send(topic, b"late").exception(60)  # on a slow machine it may be too late for that already
            while (found := admin.describe_transactions([topic])[topic]).state != "CompleteAbort":  # type: ignore[union-attr]
                assert not isinstance(found, tailrace.ApiError)
            values = [b"later"] if is_writing else []
            if generation == "v1":  # where the next epoch is not told, there is nothing to go on with
                with pytest.raises(tailrace.ProducerFenced, match=r"longer than transaction_timeout_ms \(200\)"):
                    end(producer, topic, values)
                return
            with pytest.raises(tailrace.TransactionFailed):
                end(producer, topic, values)
            while not is_written(producer, topic, b"again"):
                pass
        assert read(broker.bootstrap_servers, topic) == [b"again"]


def end(producer: Any, topic: str, values: list[bytes]) -> None:
    """Write and commit, and abort where that is not possible."""
    try:
        for value in values:
            producer.send(topic, value)
        producer.commit_transaction()
    except tailrace.TransactionFailed:
        producer.abort_transaction()
        raise


def is_written(producer: Any, topic: str, value: bytes) -> bool:
    """Whether a transaction has come to its end in time."""
    try:
        write(producer, topic, value)
    except tailrace.TransactionFailed:
        return False
    return True


@pytest.mark.parametrize("commit", [True, False])
def test_completing_survives_lost_replies(
    faulty: tuple[LossyProxy, Broker], topic: str, face: Face, commit: bool
) -> None:
    proxy, broker = faulty
    broker.create_topic(topic)
    settings = {"transaction_two_phase_commit_enable": True}
    with producer_of(face, broker.bootstrap_servers, topic, **settings) as producer:
        producer.begin_transaction()
        producer.send(topic, b"a")
        prepared = producer.prepare_transaction()
    proxy.lose(ApiKey.END_TXN, True, True, False)
    with face.admin(broker.bootstrap_servers, retry_backoff_ms=5) as admin:
        admin.complete_transaction(prepared, commit=commit)
        admin.complete_transaction(prepared, commit=commit)
    assert read(broker.bootstrap_servers, topic) == ([b"a"] if commit else [])
