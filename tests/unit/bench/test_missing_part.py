"""What a test run does without the parts that `make fetch` brings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.cache import NO_DOWNLOAD, NotFetched, built_once
from tests.missing_part import missing_lines


def test_the_end_of_a_test_run_counts_what_was_missing() -> None:
    there = "('tests/a.py', 1, 'Skipped: the broker has no groups')"
    fetched = "('tests/b.py', 1, 'Skipped: kafka/broker is not in the cache; `make fetch` brings it')"
    kcat = "('tests/c.py', 1, 'Skipped: kcat is not installed; `make fetch` brings it')"
    node = "('tests/d.py', 1, 'Skipped: node is not installed')"
    assert missing_lines([there]) == []
    assert missing_lines([there, fetched, kcat]) == ["2 tests skipped because a part is missing: run make fetch"]
    assert missing_lines([node]) == ["1 test skipped because a program or package is not installed"]


def test_tests_download_nothing(tmp_path: Path) -> None:
    """The variable of tests/conftest.py is set in this very run."""
    if os.environ.get(NO_DOWNLOAD) == "0":
        pytest.skip("the user lets this run download")
    with pytest.raises(NotFetched, match="make fetch"):
        built_once(tmp_path / "made", lambda _: pytest.fail("it was built"))
