"""Transactions and their producers, seen and ended from outside."""

from collections.abc import Callable

import pytest
from tests.unit.client.face import Face
from tests.unit.client.transaction.test_transaction import producer_of, read

import tailrace
from tailrace.client.admin.transaction import ProducerState, TransactionDescription
from tailrace.client.transaction.coordinator import TransactionCoordinator

Make = Callable[..., str]


def test_an_open_transaction_is_seen(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions()
    with face.admin(transaction_broker) as admin, producer_of(face, transaction_broker, topic) as producer:
        assert describe(admin, topic) is None
        producer.begin_transaction()
        for _ in range(3):
            producer.send(topic, b"value", partition=1).result(60)
        found = describe(admin, topic)
        assert found is not None
        assert (found.state, found.timeout_ms, found.partitions) == ("Ongoing", 60_000, ((topic, 1),))
        assert found.started_at_ms is not None
        assert [item.state for item in admin.list_transactions(states=["Ongoing"]) if item.transactional_id == topic]
        assert not [item for item in admin.list_transactions(states=["Empty"]) if item.transactional_id == topic]
        assert [i.transactional_id for i in admin.list_transactions(producer_ids=[found.producer_id])] == [topic]
        assert [i.producer_id for i in admin.list_transactions(pattern=topic)] == [found.producer_id]
        assert not admin.list_transactions(pattern=topic, running_ms=3_600_000)
        producers = admin.describe_producers([(topic, 0), (topic, 1)])
        assert producers[topic, 0] == []
        (writer,) = producers[topic, 1]
        assert (writer.producer_id, writer.producer_epoch) == (found.producer_id, found.producer_epoch)
        assert (writer.last_sequence, writer.transaction_start_offset) == (2, 0)
        assert admin.find_hanging_transactions([(topic, 0), (topic, 1)], open_ms=0) == []
        producer.commit_transaction()
        found = describe(admin, topic)
        assert found is not None
        assert found.state in ("PrepareCommit", "CompleteCommit")


def describe(admin: object, name: str) -> TransactionDescription | None:
    found: TransactionDescription | tailrace.ApiError = admin.describe_transactions([name])[name]  # type: ignore[attr-defined]
    if isinstance(found, tailrace.ApiError):
        assert found.code is tailrace.ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return None
    return found


def test_what_is_not_there_has_its_own_outcome(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with face.admin(transaction_broker) as admin:
        outcomes = admin.describe_producers([(topic, 0), (topic, 5), (f"no-{topic}", 0)])
    assert outcomes[topic, 0] == []
    for target in ((topic, 5), (f"no-{topic}", 0)):
        assert outcomes[target].code is tailrace.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_transaction_that_hangs_is_found_and_aborted(
    transaction_broker: str, make_partitions: Make, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator is made to believe that nothing is open, as it happened before KIP-890."""
    topic = make_partitions(1)
    with face.admin(transaction_broker) as admin, producer_of(face, transaction_broker, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"hangs").result(60)
        (writer,) = admin.describe_producers([(topic, 0)])[topic, 0]
        admin.abort_transaction((topic, 0), writer)  # by its leader, past the coordinator
        (writer,) = admin.describe_producers([(topic, 0)])[topic, 0]
        assert writer.transaction_start_offset is None
        assert read(transaction_broker, topic) == []


def test_only_what_no_coordinator_knows_is_hanging(
    transaction_broker: str, make_partitions: Make, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_partitions(1)
    with face.admin(transaction_broker) as admin:
        inside = admin._client if face.name == "asyncio" else admin._aio

        async def known(producer_ids: object) -> dict[int, tuple[tailrace.TopicPartition, ...]]:
            return {}

        monkeypatch.setattr(inside, "_known_partitions", known)
        with producer_of(face, transaction_broker, topic) as producer:
            producer.begin_transaction()
            producer.send(topic, b"value").result(60)
            (found,) = admin.find_hanging_transactions([(topic, 0)], open_ms=-60_000)
            assert isinstance(found.producer, ProducerState)
            assert found.partition == (topic, 0)
            assert admin.find_hanging_transactions([(topic, 0)], open_ms=3_600_000) == []
            producer.abort_transaction()
            assert read(transaction_broker, topic) == []
            assert admin.find_hanging_transactions([(topic, 0)], open_ms=-60_000) == []


def test_the_older_generation_completes_what_is_prepared_too(
    transaction_broker: str, make_partitions: Make, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older way to end a transaction keeps the epoch, and saying the same again is as good there."""

    async def is_v2(self: TransactionCoordinator) -> bool:
        return False

    monkeypatch.setattr(TransactionCoordinator, "is_v2", is_v2)
    topic = make_partitions(1)
    settings = {"transaction_two_phase_commit_enable": True}
    with producer_of(face, transaction_broker, topic, **settings) as producer, face.admin(transaction_broker) as admin:
        producer.begin_transaction()
        producer.send(topic, b"value")
        prepared = producer.prepare_transaction()
        for _ in range(3):
            admin.complete_transaction(prepared)
        with pytest.raises(tailrace.ApiError, match="INVALID_TXN_STATE"):
            admin.complete_transaction(prepared, commit=False)
    assert read(transaction_broker, topic) == [b"value"]
