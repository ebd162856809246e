"""The broker that the client meets: Tailrace's, or Apache Kafka with TAILRACE_TEST_TARGET=kafka."""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.face import Face

import tailrace
from tailrace.client.address import parse_addresses
from tailrace.client.connection import Connection
from tailrace.client.transaction.coordinator import TransactionCoordinator
from tailrace.protocol.api_key import ApiKey
from tailrace.testing import Broker

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def bootstrap(tailrace_session_broker: Broker) -> Iterator[str]:
    """The address of a broker that lives as long as the test session."""
    if os.environ.get("TAILRACE_TEST_TARGET") != "kafka":
        yield tailrace_session_broker.bootstrap_servers
        return
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    from bench.kafka import ApacheKafka, Unavailable

    try:
        kafka = ApacheKafka().start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield kafka.bootstrap_servers
    kafka.stop()


QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
}
"""A dead member is noticed within the patience of a test."""
PATIENT_SESSION_MS = "60000"
PATIENT_GROUPS = {**QUICK_GROUPS, "group.consumer.session.timeout.ms": PATIENT_SESSION_MS}
"""No member is taken for dead, however busy the machine."""


@pytest.fixture(scope="session")
def group_broker() -> Iterator[str]:
    """The address of a broker for groups whose members report often."""
    if os.environ.get("TAILRACE_TEST_TARGET") != "kafka":
        with Broker(PATIENT_GROUPS) as broker:
            yield broker.bootstrap_servers
        return
    if address := os.environ.get("TAILRACE_TEST_KAFKA"):
        yield address  # one that runs already, with the settings above
        return
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    from bench.kafka import ApacheKafka, Unavailable

    try:
        kafka = ApacheKafka(PATIENT_GROUPS).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield kafka.bootstrap_servers
    kafka.stop()


TWO_PHASE = {"transaction.two.phase.commit.enable": "true"}
UNSTABLE = {"unstable.api.versions.enable": "true"}  # Kafka 4.3 has two-phase commit, and does not promise it yet


@pytest.fixture(scope="session")
def transaction_broker() -> Iterator[str]:
    """The address of a broker whose transactions may be prepared."""
    if os.environ.get("TAILRACE_TEST_TARGET") != "kafka":
        with Broker(TWO_PHASE) as broker:
            if ApiKey.END_TXN not in asyncio.run(find_apis(broker.bootstrap_servers)):
                pytest.skip("the broker does not advertise END_TXN yet")
            yield broker.bootstrap_servers
        return
    if address := os.environ.get("TAILRACE_TEST_KAFKA"):
        yield address  # one that runs already, with the settings above
        return
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    from bench.kafka import ApacheKafka, Unavailable

    try:
        kafka = ApacheKafka(TWO_PHASE | UNSTABLE | QUICK_GROUPS).start()
    except Unavailable as reason:
        pytest.skip(str(reason))
    yield kafka.bootstrap_servers
    kafka.stop()


@pytest.fixture(params=["v1", "v2"])
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of doing transactions; a new broker does the older one, too, for clients that know no other."""
    if request.param == "v1":

        async def is_v2(self: TransactionCoordinator) -> bool:
            return False

        monkeypatch.setattr(TransactionCoordinator, "is_v2", is_v2)
    return str(request.param)


@pytest.fixture
def make_partitions(transaction_broker: str, topic: str) -> Callable[..., str]:
    """Creates a topic at the broker for transactions."""

    def make(partitions: int = 2, name: str = topic, **configs: str) -> str:
        with tailrace.Admin(transaction_broker) as admin:
            outcome = admin.create_topics([tailrace.NewTopic(name, partitions, 1, configs)])[name]
        assert not isinstance(outcome, tailrace.ApiError), outcome
        return name

    return make


async def find_apis(bootstrap_servers: str) -> frozenset[int]:
    """The keys of the APIs that a broker advertises."""
    connection = await Connection.open(parse_addresses(bootstrap_servers)[0])
    try:
        return frozenset(connection.api_keys)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def group_apis(group_broker: str) -> frozenset[int]:
    """The keys of the APIs that the broker for groups advertises."""

    return asyncio.run(find_apis(group_broker))


@pytest.fixture(params=["eager", "cooperative", "consumer"])
def membership(request: pytest.FixtureRequest, group_apis: frozenset[int]) -> dict[str, Any]:
    """The settings of a member, for each way of being one that the broker knows."""
    return find_membership(request.param, group_apis)


def find_membership(name: str, group_apis: frozenset[int]) -> dict[str, Any]:
    """The settings of a member, if the broker knows this way of being one."""
    needed = ApiKey.CONSUMER_GROUP_HEARTBEAT if name == "consumer" else ApiKey.JOIN_GROUP
    if needed not in group_apis:
        pytest.skip(f"the broker does not advertise {needed.name} yet")
    return MEMBERSHIPS[name] | ({} if name == "consumer" else {"session_timeout_ms": PATIENT_SESSION_MS})


MEMBERSHIPS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range", "heartbeat_interval_ms": "50", "session_timeout_ms": "1000"},
    "cooperative": {
        "partition_assignment_strategy": "cooperative-sticky",
        "heartbeat_interval_ms": "50",
        "session_timeout_ms": "1000",
    },
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture
def shared(group_broker: str, topic: str) -> Callable[..., str]:
    """Creates the topic of this test at the broker for groups."""

    def make(partitions: int = 4, records: int = 0, name: str = topic) -> str:
        with tailrace.Admin(group_broker) as admin:
            outcome = admin.create_topics([tailrace.NewTopic(name, partitions, 1)])[name]
        assert not isinstance(outcome, tailrace.ApiError), outcome
        with tailrace.Producer(group_broker) as producer:
            for number in range(records):
                producer.send(name, b"%d" % number, partition=number % partitions)
        return name

    return make


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"client-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(bootstrap: str, topic: str) -> Callable[..., str]:
    """Creates the topic of this test."""

    def make(partitions: int = 1, **configs: str) -> str:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        with tailrace.Admin(bootstrap) as admin:
            outcome = admin.create_topics([tailrace.NewTopic(topic, partitions, 1, settings)])[topic]
        assert not isinstance(outcome, tailrace.ApiError), outcome
        return topic

    return make


@pytest.fixture(params=["thread", "asyncio"])
def face(request: pytest.FixtureRequest) -> Face:
    """The clients for ordinary code, and then those for asyncio."""
    return Face(request.param)
