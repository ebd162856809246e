"""Offsets of groups that are committed by the transactions of producers: read, transform and write exactly once."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.client.face import Face
from tests.unit.client.transaction.test_transaction import producer_of, read

import tailrace

pytestmark = pytest.mark.usefixtures("generation")

Make = Callable[..., str]


def consumer_of(face: Face, bootstrap: str, group: str, **settings: Any) -> Any:
    return face.consumer(
        bootstrap,
        group_id=group,
        enable_auto_commit=settings.pop("enable_auto_commit", False),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        **settings,
    )


def fill(bootstrap: str, topic: str, count: int) -> None:
    with tailrace.Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%03d" % number)


def poll_some(consumer: Any) -> list[Any]:
    while not (records := consumer.poll(timeout_s=60)):
        pass
    return list(records)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_loop_that_reads_and_writes_in_one_transaction(
    transaction_broker: str, make_partitions: Make, face: Face, protocol: str
) -> None:
    source = make_partitions(1)
    sink = make_partitions(1, name=f"{source}-out")
    fill(transaction_broker, source, 30)
    with (
        producer_of(face, transaction_broker, sink) as producer,
        consumer_of(face, transaction_broker, source, group_protocol=protocol, max_poll_records=10) as consumer,
    ):
        consumer.subscribe(source)
        done = 0
        while done < 30:
            records = poll_some(consumer)
            done += len(records)
            with producer.transaction():
                for record in records:
                    producer.send(sink, record.value)
                producer.send_offsets(None if done < 20 else records[-1], consumer)
        assert consumer.committed()[tailrace.TopicPartition(source, 0)].offset == 30
    assert read(transaction_broker, sink) == [b"%03d" % number for number in range(30)]


def test_after_an_abort_the_consumer_goes_back(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    source = make_partitions(1)
    sink = make_partitions(1, name=f"{source}-out")
    fill(transaction_broker, source, 12)
    with (
        producer_of(face, transaction_broker, sink) as producer,
        consumer_of(face, transaction_broker, source, max_poll_records=5) as consumer,
    ):
        consumer.subscribe(source)
        done = attempts = 0
        while done < 12:
            records = poll_some(consumer)
            attempts += 1
            producer.begin_transaction()
            for record in records:
                producer.send(sink, record.value)
            producer.send_offsets(None, consumer)
            if attempts % 2:
                producer.abort_transaction()
                consumer.seek_to_committed()
            else:
                producer.commit_transaction()
                done += len(records)
    assert read(transaction_broker, sink) == [b"%03d" % number for number in range(12)]
    with face.consumer(transaction_broker) as alone, pytest.raises(ValueError, match="group_id"):
        alone.seek_to_committed()


def test_what_is_aborted_is_read_again(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with tailrace.Admin(transaction_broker) as admin, producer_of(face, transaction_broker, topic) as producer:
        group = tailrace.GroupMetadata(f"group-{topic}")
        with producer.transaction():
            producer.send_offsets({(topic, 0): 3}, group)
        producer.begin_transaction()
        producer.send_offsets({(topic, 0): tailrace.OffsetAndMetadata(7, "a note")}, group)
        producer.abort_transaction()
        assert admin.list_group_offsets(group.group_id)[tailrace.TopicPartition(topic, 0)].offset == 3
        with producer.transaction():
            producer.send(topic, b"value")
            producer.send_offsets({(topic, 0): tailrace.OffsetAndMetadata(9, "a note")}, group)
            producer.send_offsets({}, group)
        assert admin.list_group_offsets(group.group_id)[tailrace.TopicPartition(topic, 0)][:2] == (9, "a note")


def test_offsets_are_committed_for_the_topic_that_was_read(
    transaction_broker: str, make_partitions: Make, face: Face, generation: str
) -> None:
    """The offset of a deleted topic was committed for the next topic of its name, whose first records were skipped."""
    if generation == "v1":
        pytest.skip("TxnOffsetCommit of the first generation has no topic ids")
    if os.environ.get("TAILRACE_TEST_TARGET") == "kafka":
        pytest.skip("TxnOffsetCommit of Apache Kafka 4.3 has no topic ids")
    topic = make_partitions(1)
    fill(transaction_broker, topic, 3)
    with (
        producer_of(face, transaction_broker, topic) as producer,
        tailrace.Admin(transaction_broker) as admin,
        consumer_of(face, transaction_broker, topic) as consumer,
    ):
        consumer.subscribe(topic)
        poll_some(consumer)
        group = consumer.group_metadata()
        admin.delete_topics([topic])
        make_partitions(1, name=topic)
        producer.begin_transaction()
        with pytest.raises(tailrace.TransactionFailed, match=f"{topic} was deleted"):
            producer.send_offsets({(topic, 0): 3}, group)
        producer.abort_transaction()
        assert admin.list_group_offsets(topic) == {}


def test_a_member_that_is_out_of_the_group_cannot_commit(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    fill(transaction_broker, topic, 1)
    with producer_of(face, transaction_broker, topic) as producer:
        with consumer_of(face, transaction_broker, topic) as consumer:
            consumer.subscribe(topic)
            poll_some(consumer)
            gone = consumer.group_metadata()
        with pytest.raises(tailrace.CommitFailed, match="excluded this consumer"):
            commit_as(producer, topic, gone)
        with producer.transaction():
            producer.send(topic, b"next")
    assert read(transaction_broker, topic) == [b"000", b"next"]


def test_what_went_to_another_member_is_not_committed(
    transaction_broker: str, make_partitions: Make, face: Face
) -> None:
    topic = make_partitions(1)
    fill(transaction_broker, topic, 1)
    with (
        producer_of(face, transaction_broker, topic) as producer,
        consumer_of(face, transaction_broker, topic) as consumer,
    ):
        consumer.subscribe(topic)
        poll_some(consumer)
        producer.begin_transaction()
        with pytest.raises(tailrace.CommitFailed, match=f"{topic}-1 was assigned to another member"):
            producer.send_offsets({(topic, 0): 1, (topic, 1): 1}, consumer)
        producer.send_offsets({(topic, 0): 1}, consumer)
        producer.commit_transaction()
        assert consumer.committed()[tailrace.TopicPartition(topic, 0)].offset == 1


def commit_as(producer: Any, topic: str, group: tailrace.GroupMetadata) -> None:
    with producer.transaction():
        producer.send(topic, b"lost")
        producer.send_offsets({(topic, 0): 1}, group)


def test_what_cannot_be_sent_is_refused_by_name(transaction_broker: str, make_partitions: Make, face: Face) -> None:
    topic = make_partitions(1)
    with (
        producer_of(face, transaction_broker, topic) as producer,
        consumer_of(face, transaction_broker, topic, enable_auto_commit=True) as consumer,
        producer.transaction(),
    ):
        with pytest.raises(ValueError, match="enable_auto_commit=False"):
            producer.send_offsets(None, consumer)
        with pytest.raises(TypeError, match="neither a consumer nor group metadata"):
            producer.send_offsets({(topic, 0): 1}, "group")
        with pytest.raises(TypeError, match="cannot be committed"):
            producer.send_offsets(3, tailrace.GroupMetadata("group"))
