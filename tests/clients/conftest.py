"""The broker that the clients meet: Tailrace's, or Apache Kafka with TAILRACE_TEST_TARGET=kafka.

Run against Kafka, the suite proves that what it expects is what Kafka does.
"""

from __future__ import annotations

import importlib
import os
import sys
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
if str(CHECKOUT) not in sys.path:
    sys.path.insert(0, str(CHECKOUT))  # for `bench` and `tests.clients`, wherever pytest was started

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that newer Pythons warn of; here a warning is an error.
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka")
    for part in ("admin", "consumer", "metadata", "producer"):
        importlib.import_module(f"kafka.protocol.{part}")

TARGET = os.environ.get("TAILRACE_TEST_TARGET", "tailrace")


@pytest.fixture(scope="session")
def broker_bootstrap() -> Iterator[str]:
    """The address of a broker that lives as long as the test session."""
    if TARGET == "kafka":
        from bench.kafka import ApacheKafka, Unavailable

        try:
            kafka = ApacheKafka().start()
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield kafka.bootstrap_servers
        kafka.stop()
    else:
        from tailrace.testing import Broker

        with Broker() as broker:
            yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def reference_topic(broker_bootstrap: str) -> str:
    """A topic with the workload's records as confluent-kafka writes them, null headers and all."""
    from tests.clients import client_confluent

    name = f"reference-{uuid.uuid4().hex[:8]}"
    client_confluent.write(broker_bootstrap, name)
    return name


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"workload-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def has_groups(broker_bootstrap: str) -> bool:
    """Whether the broker has consumer groups, by what it advertises."""
    from tests.clients.raw import Wire

    with Wire(broker_bootstrap) as wire:
        answer = wire.ask("ApiVersions", 0)
    assert not isinstance(answer, str)
    return any(api["api_key"] == 11 for api in answer["api_keys"])
