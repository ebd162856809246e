"""The broker that the client meets: Runnel's, or Apache Kafka with RUNNEL_TEST_TARGET=kafka."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import runnel
from runnel.testing import Broker

from .face import Face

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def bootstrap(runnel_session_broker: Broker) -> Iterator[str]:
    """The address of a broker that lives as long as the test session."""
    if os.environ.get("RUNNEL_TEST_TARGET") != "kafka":
        yield runnel_session_broker.bootstrap_servers
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


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"client-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def make_topic(bootstrap: str, topic: str) -> Callable[..., str]:
    """Creates the topic of this test."""

    def make(partitions: int = 1, **configs: str) -> str:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        with runnel.Admin(bootstrap) as admin:
            outcome = admin.create_topics([runnel.NewTopic(topic, partitions, 1, settings)])[topic]
        assert not isinstance(outcome, runnel.ApiError), outcome
        return topic

    return make


@pytest.fixture(params=["thread", "asyncio"])
def face(request: pytest.FixtureRequest) -> Face:
    """The clients for ordinary code, and then those for asyncio."""
    return Face(request.param)
