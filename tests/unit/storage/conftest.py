"""The fixture that nearly every storage test begins with."""

import pytest
from tests.unit.storage.workbench import Workbench


@pytest.fixture
def bench() -> Workbench:
    return Workbench()
