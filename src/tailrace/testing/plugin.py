"""The pytest plugin: `tailrace_broker`, a real Kafka-compatible broker for tests.

    def test_my_service(tailrace_broker):
        my_service.run(bootstrap=tailrace_broker.bootstrap_servers)

One broker serves the whole test session, so give each test its own topic names. Faults are cleared after every test,
and a broker that a test has stopped is started again for the next one. Override `tailrace_broker_config` to set broker
configs. A test that needs its own broker uses `with tailrace.testing.Broker() as broker`.

Pytest loads this module in every run where Tailrace is installed, so it imports nothing of Tailrace until a test uses
a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tailrace.testing.broker import Broker


@pytest.fixture(scope="session")
def tailrace_broker_config() -> Mapping[str, str]:
    """Broker configs for `tailrace_broker`, by Kafka's names; override it in conftest.py."""
    return {}


@pytest.fixture(scope="session")
def tailrace_session_broker(tailrace_broker_config: Mapping[str, str]) -> Iterator[Broker]:
    """The broker of `tailrace_broker`, for fixtures of session scope."""
    from tailrace.testing.broker import Broker

    with Broker(tailrace_broker_config) as broker:
        yield broker


@pytest.fixture
def tailrace_broker(tailrace_session_broker: Broker) -> Iterator[Broker]:
    """A running broker without faults; its topics are shared by the session."""
    if not tailrace_session_broker.is_running:
        tailrace_session_broker.start()
    yield tailrace_session_broker
    tailrace_session_broker.clear_faults()
