"""One broker with every kind of security for all tests of a module."""

from collections.abc import Iterator

import pytest
from tests.unit.client.security.secure_broker import SecureBroker, start_secure_broker


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with start_secure_broker(tmp_path_factory.mktemp("secure")) as broker:
        yield broker
