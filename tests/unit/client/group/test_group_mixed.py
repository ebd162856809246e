"""This client and confluent-kafka in one group: whoever leads, they share, and one goes on where the other was."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.client.conftest import MEMBERSHIPS, find_membership

import tailrace
from tailrace.client.backoff import Deadline

confluent_kafka = pytest.importorskip("confluent_kafka")

Shared = Callable[..., str]
PATIENCE_MS = 60_000
COUNT = 60


class Theirs:
    """A consumer of confluent-kafka with the few words that these tests need."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, settings: dict[str, Any]) -> None:
        options = {"bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": "earliest", **settings}
        self._consumer = confluent_kafka.Consumer(options)
        self._consumer.subscribe([topic])

    def poll(self, timeout_s: float) -> list[bytes]:
        found = self._consumer.consume(100, timeout_s)
        assert all(message.error() is None for message in found), [message.error() for message in found]
        return [message.value() for message in found]

    def assignment(self) -> list[tuple[str, int]]:
        return [(found.topic, found.partition) for found in self._consumer.assignment()]

    def close(self) -> None:
        self._consumer.close()


class Ours:
    """The same with this client."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, settings: dict[str, Any]) -> None:
        options = {"group.id": group_id, "auto.offset.reset": "earliest", **settings}
        self._consumer = tailrace.Consumer(bootstrap, config=options).subscribe(topic)

    def poll(self, timeout_s: float) -> list[bytes]:
        return [record.value or b"" for record in self._consumer.poll(timeout_s)]

    def assignment(self) -> list[tuple[str, int]]:
        return [(target.topic, target.partition) for target in self._consumer.assignment()]

    def close(self) -> None:
        self._consumer.close()


PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "roundrobin": {"partition.assignment.strategy": "roundrobin"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


def find_settings(name: str, group_apis: frozenset[int]) -> dict[str, Any]:
    find_membership(name if name in MEMBERSHIPS else "eager", group_apis)
    quick = {} if name == "consumer" else {"heartbeat.interval.ms": 50, "session.timeout.ms": 60000}
    return {**PROTOCOLS[name], **quick}


@pytest.fixture
def close() -> Iterator[Callable[[Any], Any]]:
    kept: list[Any] = []

    def keep(consumer: Any) -> Any:
        kept.append(consumer)
        return consumer

    yield keep
    for consumer in kept:
        consumer.close()


def share(*consumers: Any, sizes: list[int], found: list[bytes]) -> None:
    deadline = Deadline(PATIENCE_MS)
    while sorted(len(consumer.assignment()) for consumer in consumers) != sorted(sizes):
        assert not deadline.is_over, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            found += consumer.poll(0.02)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("range", (Ours, Theirs)),
        ("range", (Theirs, Ours)),
        ("roundrobin", (Theirs, Ours)),
        ("cooperative-sticky", (Ours, Theirs)),
        ("consumer", (Ours, Theirs)),
    ],
)
def test_two_clients_share_a_topic(
    name: str,
    kinds: tuple[Any, Any],
    group_apis: frozenset[int],
    group_broker: str,
    shared: Shared,
    close: Callable[[Any], Any],
) -> None:
    settings = find_settings(name, group_apis)
    topic = shared(4, COUNT)
    group_id = f"mixed-{uuid.uuid4().hex[:12]}"
    found: list[bytes] = []
    first = close(kinds[0](group_broker, group_id, topic, settings))
    share(first, sizes=[4], found=found)
    second = close(kinds[1](group_broker, group_id, topic, settings))
    share(first, second, sizes=[2, 2], found=found)
    assert not set(first.assignment()) & set(second.assignment())
    first.close()
    share(second, sizes=[4], found=found)
    deadline = Deadline(PATIENCE_MS)
    while len(set(found)) < COUNT:
        assert not deadline.is_over
        found += second.poll(0.1)
    assert sorted(map(int, found)) == list(range(COUNT))  # a clean leave hands over to the record
