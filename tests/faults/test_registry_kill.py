"""A few kills of the leading registry; `make registry-kill` has two hundred."""

from pathlib import Path

import pytest
from tests.faults.registry_kill import Client, check, run


@pytest.mark.slow
def test_an_id_that_was_given_out_keeps_its_meaning(tmp_path: Path) -> None:
    assert "every id means its schema" in run(6, 1, tmp_path, session_timeout_ms=3_000)


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        ([("a", '"int"', 1), ("b", '"int"', 2)], "several ids"),
        ([("a", '"int"', 1), ("b", '"long"', 1)], "id 1 means"),
    ],
)
def test_a_broken_promise_is_noticed(given: list[tuple[str, str, int]], broken: str) -> None:
    client = Client(0, 1, [])
    client.given = given
    with pytest.raises(AssertionError, match=broken):
        check([client], [])
