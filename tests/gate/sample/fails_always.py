"""Six tests that always fail."""

import pytest


@pytest.mark.parametrize("number", range(6))
def test_fails_always(number: int) -> None:
    assert number < 0
