"""A broker and a registry that the tests of this folder share."""

import uuid
from collections.abc import Iterator

import pytest

from tailrace.schema import Registry
from tailrace.testing import Broker, SchemaRegistry


@pytest.fixture(scope="session")
def registry_url() -> Iterator[str]:
    with Broker() as broker, SchemaRegistry(broker.bootstrap_servers) as running:
        yield running.url


@pytest.fixture
def registry(registry_url: str) -> Iterator[Registry]:
    with Registry(registry_url) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"schema-{uuid.uuid4().hex[:12]}"
