"""What a run says at its end."""

from pathlib import Path

import pytest
from tests.gate.report import report

SLOW = "tests/gate/test_second_chance.py"


@pytest.mark.parametrize(
    ("path", "is_all", "reason"),
    [
        (SLOW, False, f'what is in {SLOW} is slow or needs more than PyPI, and make test-all TESTS="{SLOW}" runs it'),
        (
            f"{SLOW}::test_x",
            False,
            f"what is in {SLOW}::test_x is slow or needs more than PyPI, and make test-all "
            f'TESTS="{SLOW}::test_x" runs it',
        ),
        (SLOW, True, f"there is none in {SLOW}"),
        ("tests/test_nothing.py", False, "there is none in tests/test_nothing.py"),
        ("tests/gate/sample/pure", False, "there is none in tests/gate/sample/pure"),
    ],
)
def test_a_run_without_tests_says_how_to_run_them(
    path: str, is_all: bool, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of slow tests gave only "no test was run"."""
    assert not report([], 1, is_all=is_all, paths=[path], file=tmp_path / "unsteady.jsonl")
    assert capsys.readouterr().out.splitlines()[-1] == f"FAILED no test was run: {reason}"
