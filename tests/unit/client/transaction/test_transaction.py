"""Transactions of a producer, in both faces and both generations, as those see them who read what is committed."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.client.error import TransactionStateError

pytestmark = pytest.mark.usefixtures("generation")

Make = Callable[..., str]


def read(bootstrap: str, topic: str, level: str = "read_committed", *, is_open: bool = False) -> list[bytes]:
    """The values of a topic up to where it ends for such a reader, once every transaction but an open one has ended."""
    if not is_open:
        wait_for_markers(bootstrap, topic)
    with tailrace.Consumer(bootstrap, isolation_level=level, auto_offset_reset="earliest") as consumer:
        targets = [(topic, partition) for partition in consumer.partitions_for(topic)]
        consumer.assign([(*target, "earliest") for target in targets])
        ends = consumer.end_offsets(targets)
        found: list[bytes] = []
        while any(consumer.position(*target) < end for target, end in ends.items()):
            found += [record.value or b"" for record in consumer.poll(timeout_s=0.2)]
        return sorted(found)


def wait_for_markers(bootstrap: str, topic: str) -> None:
    """Wait for what coordinators write behind the answer to a commit."""
    deadline_s = time.monotonic() + 60
    with (
        tailrace.Consumer(bootstrap, isolation_level="read_committed") as committed,
        tailrace.Consumer(bootstrap) as everything,
    ):
        targets = [(topic, partition) for partition in everything.partitions_for(topic)]
        while committed.end_offsets(targets) != everything.end_offsets(targets):
            assert time.monotonic() < deadline_s, "a transaction is open"
            time.sleep(0.01)


def producer_of(face: Face, bootstrap: str, name: str, **settings: Any) -> Any:
    return face.producer(bootstrap, transactional_id=name, retry_backoff_ms=5, **settings)


def write(producer: Any, topic: str, *values: bytes, error: Exception | None = None) -> None:
    """One transaction, which ends with the error if there is one."""
    with producer.transaction():
        futures = [producer.send(topic, value, partition=0) for value in values]
        if error is not None:
            for future in futures:
                future.result(60)
            raise error


def test_a_block_counts_as_a_whole_or_not_at_all(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions()
    with producer_of(face, transaction_broker, topic) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"a%d" % number, partition=0)
                producer.send(topic, b"b%d" % number, partition=1)
        with pytest.raises(ZeroDivisionError):
            write(producer, topic, b"never", error=ZeroDivisionError())
        with producer.transaction():
            pass  # nothing to commit
        with producer.transaction():
            producer.send(topic, b"last", partition=1)
    everything = [b"a0", b"a1", b"a2", b"b0", b"b1", b"b2", b"last"]
    assert read(transaction_broker, topic) == everything
    assert read(transaction_broker, topic, "read_uncommitted") == sorted([*everything, b"never"])


def test_nothing_is_seen_before_the_commit(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic) as producer:
        producer.begin_transaction()
        assert producer.send(topic, b"early").result(60).offset == 0
        assert read(transaction_broker, topic, is_open=True) == []
        assert read(transaction_broker, topic, "read_uncommitted", is_open=True) == [b"early"]
        producer.commit_transaction()
        assert read(transaction_broker, topic) == [b"early"]


def test_records_that_were_not_sent_are_aborted_with_the_rest(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        producer.begin_transaction()
        future = producer.send(topic, b"waits")
        producer.abort_transaction()
        with pytest.raises(tailrace.TransactionFailed, match="aborted"):
            future.result(60)
        with producer.transaction():
            producer.send(topic, b"goes")
    assert read(transaction_broker, topic, "read_uncommitted") == [b"goes"]


def test_tables_are_written_in_transactions(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = make_partitions()
    values = [b"%04d" % number for number in range(2000)]
    with producer_of(face, transaction_broker, topic, batch_size=4096, compression_type="zstd") as producer:
        for outcome in ("commit", "abort"):
            producer.begin_transaction()
            delivery = producer.send_table(topic, pa.table({"key": values, "value": values}))
            producer.commit_transaction() if outcome == "commit" else producer.abort_transaction()
            if outcome == "commit":
                assert delivery.result(60).record_count == 2000
    assert read(transaction_broker, topic) == values
    wait_for_markers(transaction_broker, topic)
    table = tailrace.read_table(transaction_broker, topic, config={"isolation.level": "read_committed"})
    assert sorted(table.column("value").to_pylist()) == values


def test_a_newer_producer_fences_the_older_one(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic) as old, producer_of(face, transaction_broker, topic) as new:
        old.begin_transaction()
        old.send(topic, b"zombie").result(60)
        new.init_transactions()
        with pytest.raises(tailrace.ProducerFenced, match=f"{topic}.*create a new one"):
            old.commit_transaction()
        for again in (old.begin_transaction, old.abort_transaction, lambda: old.send(topic, b"zombie")):
            with pytest.raises(tailrace.ProducerFenced):
                again()
        with new.transaction():
            new.send(topic, b"alive")
    assert read(transaction_broker, topic) == [b"alive"]


def test_a_fenced_producer_hears_of_it_when_it_writes(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic) as old, producer_of(face, transaction_broker, topic) as new:
        old.init_transactions()
        with new.transaction():
            new.send(topic, b"alive")
        with pytest.raises(tailrace.ProducerFenced):
            with old.transaction():
                old.send(topic, b"zombie")
    assert read(transaction_broker, topic) == [b"alive"]


def test_a_record_that_cannot_be_written_takes_the_transaction_with_it(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1, **{"max.message.bytes": "2000"})
    with producer_of(face, transaction_broker, topic) as producer:
        with pytest.raises(tailrace.TransactionFailed, match=r"not written.*MESSAGE_TOO_LARGE"):
            write(producer, topic, b"small", b"x" * 5000)
        with producer.transaction():  # the next one is as good as any
            producer.send(topic, b"good")
    assert read(transaction_broker, topic) == [b"good"]


def test_who_looks_at_no_future_hears_of_it_at_the_commit(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1, **{"max.message.bytes": "2000"})
    with producer_of(face, transaction_broker, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"x" * 5000)
        with pytest.raises(tailrace.TransactionFailed):
            producer.commit_transaction()
        with pytest.raises(tailrace.TransactionFailed):
            producer.send(topic, b"more")
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"good")
    assert read(transaction_broker, topic) == [b"good"]


def test_calls_out_of_turn_are_refused(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic) as producer:
        producer.init_transactions()
        for call in (producer.commit_transaction, producer.abort_transaction, lambda: producer.send(topic, b"v")):
            with pytest.raises(TransactionStateError, match=r"with producer\.transaction"):
                call()
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="commit or abort it first"):
            producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="two_phase_commit"):
            producer.prepare_transaction()
        producer.abort_transaction()
    with face.producer(transaction_broker) as plain, pytest.raises(TransactionStateError, match="transactional_id"):
        plain.begin_transaction()


def test_closing_aborts_what_is_open(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with producer_of(face, transaction_broker, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"forgotten").result(60)
    with tailrace.Admin(transaction_broker) as admin:
        found = admin.describe_transactions([topic])[topic]
    assert not isinstance(found, tailrace.ApiError)
    assert found.state in ("PrepareAbort", "CompleteAbort")


def test_an_open_transaction_is_the_end_for_who_reads_what_is_committed(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    target = (topic, 0)
    with producer_of(face, transaction_broker, topic) as producer:
        write(producer, topic, b"a", b"b")  # and a marker
        wait_for_markers(transaction_broker, topic)
        producer.begin_transaction()
        producer.send(topic, b"open").result(60)
        for level, end, values in (("read_committed", 3, [b"a", b"b"]), ("read_uncommitted", 4, [b"a", b"b", b"open"])):
            with face.consumer(transaction_broker, isolation_level=level) as consumer:
                consumer.assign([(topic, 0, "earliest")])
                assert consumer.end_offsets([target]) == {target: end}
                found: list[bytes] = []
                while consumer.position(*target) < end:
                    found += [record.value for record in consumer.poll(timeout_s=0.2)]
                assert found == values
                assert consumer.lag() == {target: 0}
                consumer.seek_to_end()
                assert consumer.position(*target) == end
                late = consumer.offsets_for_times({target: 0})[target]
                assert late is not None
                assert late.offset == 0
        producer.commit_transaction()
