"""Two-phase commit: a transaction is written here and ended there, or by whoever comes back."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.face import Face
from tests.unit.client.transaction.test_transaction import producer_of, read

import tailrace

Make = Callable[..., str]
TWO_PHASE = {"transaction_two_phase_commit_enable": True}


def prepare(face: Face, bootstrap: str, topic: str, *values: bytes) -> Any:
    """What is left when somebody has written values and gone."""
    with producer_of(face, bootstrap, topic, **TWO_PHASE) as producer:
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value)
        return producer.prepare_transaction()


@pytest.mark.parametrize("commit", [True, False])
def test_somebody_else_ends_it_and_may_say_so_again(
    transaction_broker: str, make_partitions: Make, face: Face, commit: bool
) -> None:
    topic = make_partitions()
    prepared = prepare(face, transaction_broker, topic, b"a", b"b")
    assert prepared.transactional_id == topic
    assert read(transaction_broker, topic, is_open=True) == []
    with face.admin(transaction_broker) as admin:
        for _ in range(3):
            admin.complete_transaction(prepared, commit=commit)
        assert read(transaction_broker, topic) == ([b"a", b"b"] if commit else [])
        with pytest.raises(tailrace.ApiError, match="INVALID_TXN_STATE"):
            admin.complete_transaction(prepared, commit=not commit)
        assert read(transaction_broker, topic) == ([b"a", b"b"] if commit else [])


def test_another_attempt_fences_the_first(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    first = prepare(face, transaction_broker, topic, b"first")
    second = prepare(face, transaction_broker, topic, b"second")
    with face.admin(transaction_broker) as admin:
        for commit in (True, False):
            with pytest.raises(tailrace.ProducerFenced, match=topic):
                admin.complete_transaction(first, commit=commit)
        admin.complete_transaction(second)
    assert read(transaction_broker, topic) == [b"second"]


def test_what_is_left_open_can_be_aborted_by_its_name(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    prepared = prepare(face, transaction_broker, topic, b"orphan")
    with face.admin(transaction_broker) as admin:
        found = admin.fence_producers([topic])[topic]
        assert found.producer_epoch > prepared.producer_epoch
        with pytest.raises(tailrace.ProducerFenced):
            admin.complete_transaction(prepared)
    assert read(transaction_broker, topic) == []


def test_a_block_may_end_with_preparing(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic, **TWO_PHASE) as producer:
        with producer.transaction():
            assert producer.prepare_transaction() is None  # nothing was sent, so nothing is to be ended
        with producer.transaction():
            producer.send(topic, b"a")
            prepared = producer.prepare_transaction()
            with pytest.raises(tailrace.ClientError, match="prepared"):
                producer.send(topic, b"late")
        assert read(transaction_broker, topic, is_open=True) == []
        assert producer.complete_transaction(prepared)
        with producer.transaction():
            producer.send(topic, b"b")
    assert read(transaction_broker, topic) == [b"a", b"b"]


@pytest.mark.parametrize("is_right", [True, False])
def test_who_comes_back_finds_what_was_prepared(
    transaction_broker: str, make_partitions: Make, face: Face, is_right: bool
) -> None:
    topic = make_partitions(1)
    prepared = prepare(face, transaction_broker, topic, b"kept")
    with producer_of(face, transaction_broker, topic, **TWO_PHASE) as producer:
        try:
            kept = producer.init_transactions(keep_prepared=True)
        except tailrace.ApiError as error:
            if error.code is not tailrace.ErrorCode.UNSUPPORTED_VERSION:
                raise
            pytest.skip("Kafka 4.3 knows the question and has no answer yet")
        assert kept == prepared
        decided = kept if is_right else kept._replace(producer_epoch=kept.producer_epoch + 1)
        assert producer.complete_transaction(decided) is is_right
        with producer.transaction():
            producer.send(topic, b"next")
    assert read(transaction_broker, topic) == ([b"kept", b"next"] if is_right else [b"next"])


def test_nothing_is_found_where_nothing_was_left(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic, **TWO_PHASE) as producer:
        try:
            assert producer.init_transactions(keep_prepared=True) is None
        except tailrace.ApiError as error:
            if error.code is not tailrace.ErrorCode.UNSUPPORTED_VERSION:
                raise
            pytest.skip("Kafka 4.3 knows the question and has no answer yet")
        with pytest.raises(tailrace.ClientError, match="no prepared transaction"):
            producer.complete_transaction(tailrace.PreparedTransaction(topic, 1, 1))
