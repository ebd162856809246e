"""One broker with every kind of listener, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clients.security.ground import Ground, open_ground


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The broker, its users, and certificates and tokens of each kind."""
    with open_ground(tmp_path_factory.mktemp("security")) as opened:
        yield opened
