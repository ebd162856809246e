"""The pytest plugin: `runnel_broker`, a real Kafka-compatible broker for tests.

    def test_my_service(runnel_broker):
        my_service.run(bootstrap=runnel_broker.bootstrap_servers)

One broker serves the whole test session, because a topic of your own costs less than a broker
of your own: give each test its own topic names. Faults are cleared after every test, and a
broker that a test stopped is started again for the next one. Override `runnel_broker_config` to
set broker options. A test that needs a broker to itself takes `with runnel.testing.Broker() as
broker`.

This module is loaded in every pytest run where Runnel is installed, so it imports nothing of
Runnel until a test asks for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from runnel.testing.broker import Broker


@pytest.fixture(scope="session")
def runnel_broker_config() -> Mapping[str, str]:
    """Broker options for `runnel_broker`, by Kafka's names; override it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def runnel_session_broker(runnel_broker_config: Mapping[str, str]) -> Iterator[Broker]:
    """The broker behind `runnel_broker`, for fixtures that live as long as the session."""
    from runnel.testing.broker import Broker

    with Broker(runnel_broker_config) as broker:
        yield broker


@pytest.fixture
def runnel_broker(runnel_session_broker: Broker) -> Iterator[Broker]:
    """A running broker without faults; topics are those of the whole session."""
    if not runnel_session_broker.is_running:
        runnel_session_broker.start()
    yield runnel_session_broker
    runnel_session_broker.clear_faults()
