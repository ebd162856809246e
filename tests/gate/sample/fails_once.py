"""A test that passes from its second run on; `GATE_SAMPLE` names the folder in which it remembers the first."""

import os
from pathlib import Path

import pytest


def is_first_time(name: str) -> bool:
    mark = Path(os.environ["GATE_SAMPLE"]) / name
    if mark.exists():
        return False
    mark.touch()
    return True


def test_fails_once() -> None:
    assert not is_first_time("ordinary")


@pytest.mark.exact
def test_exact_fails_once() -> None:
    assert not is_first_time("exact")


def test_passes() -> None:
    assert True
