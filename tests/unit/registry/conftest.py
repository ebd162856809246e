"""A broker for registry servers, and the options of a registry with a topic and a group of its own."""

import uuid
from collections.abc import Iterator

import pytest

from tailrace.registry.process import Options
from tailrace.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def options(broker: Broker) -> Options:
    name = uuid.uuid4().hex[:8]
    return Options(broker.bootstrap_servers, topic=f"_{name}", group_id=name)
