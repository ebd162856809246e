"""Groups of the new protocol (KIP-848) with confluent-kafka: alone, with a classic member, and by pattern."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Producer
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, NewTopic

PARTITION_COUNT = 4
DEADLINE_S = 60.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"


@contextmanager
def member(bootstrap: str, group: str, protocol: str, *topics: str) -> Iterator[Consumer]:
    """A consumer that leaves its group at the end."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 500}
    consumer = Consumer(settings)
    consumer.subscribe(list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


def owned(consumer: Consumer) -> set[int]:
    """What a consumer has, after giving it the chance to hear of more."""
    message = consumer.poll(0.1)
    error = None if message is None else message.error()
    assert error is None or error.code() == KafkaError._PARTITION_EOF
    return {partition.partition for partition in consumer.assignment()}


def shared(*consumers: Consumer) -> bool:
    """Whether these consumers have all partitions, and each of them some."""
    shares = [owned(consumer) for consumer in consumers]
    return all(shares) and sorted(index for share in shares for index in share) == list(range(PARTITION_COUNT))


def described(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    found: ConsumerGroupDescription = admin.describe_consumer_groups([group])[group].result(DEADLINE_S)
    return found


def read_one(consumer: Consumer, read: list[bytes]) -> bool:
    """Read one record, if there is one."""
    message = consumer.poll(0.1)
    if message is None:
        return False
    value = message.value()
    assert message.error() is None
    assert value is not None
    read.append(value)
    return True


@pytest.fixture
def filled(broker_bootstrap: str) -> str:
    """A topic with records."""
    name = f"new-protocol-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker_bootstrap})
    admin.create_topics([NewTopic(name, PARTITION_COUNT, 1)])[name].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": broker_bootstrap})
    for number in range(100):
        producer.produce(name, str(number).encode(), partition=number % PARTITION_COUNT)
    producer.flush(DEADLINE_S)
    return name


def test_one_member_reads_everything_and_the_next_goes_on_where_it_stopped(broker_bootstrap: str, filled: str) -> None:
    group = f"g-{filled}"
    read: list[bytes] = []
    with member(broker_bootstrap, group, "consumer", filled) as consumer:
        until(lambda: read_one(consumer, read) and len(read) == 100)
        consumer.commit(asynchronous=False)
    assert sorted(map(int, read)) == list(range(100))
    producer = Producer({"bootstrap.servers": broker_bootstrap})
    producer.produce(filled, b"more", partition=1)
    producer.flush(DEADLINE_S)
    with member(broker_bootstrap, group, "consumer", filled) as consumer:
        until(lambda: read_one(consumer, read))
    assert read[-1] == b"more"


def test_members_of_both_protocols_share_a_group_and_part(broker_bootstrap: str, filled: str) -> None:
    """The group goes up when the new member comes, and down when it leaves."""
    group = f"g-{filled}"
    admin = AdminClient({"bootstrap.servers": broker_bootstrap})
    with member(broker_bootstrap, group, "classic", filled) as old:
        until(lambda: shared(old))
        with member(broker_bootstrap, group, "consumer", filled) as new:
            until(lambda: shared(old, new))
            (listed,) = [one for one in admin.list_consumer_groups().result(DEADLINE_S).valid if one.group_id == group]
            assert listed.type.name == "CONSUMER"
            # Members have their partitions a little earlier than the broker hears that they do.
            until(lambda: described(admin, group).state is ConsumerGroupState.STABLE)
            assert len(described(admin, group).members) == 2
        until(lambda: shared(old))
    (listed,) = [one for one in admin.list_consumer_groups().result(DEADLINE_S).valid if one.group_id == group]
    assert listed.type.name == "CLASSIC"


def test_a_pattern_is_resolved_by_the_broker(broker_bootstrap: str, filled: str) -> None:
    with member(broker_bootstrap, f"g-{filled}", "consumer", f"^{filled[:-3]}.*") as consumer:
        until(lambda: shared(consumer))
