"""The second chance, from outside: pytest runs over the files in `sample`, which fail in every way that counts."""

import json
from pathlib import Path

import pytest
from tests.gate.report import report
from tests.gate.run import LaneRun, Plan, run

pytestmark = pytest.mark.slow

SEED = 7
FAILS_ONCE = "tests/gate/sample/fails_once.py"


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GATE_SAMPLE", str(tmp_path))
    return tmp_path


def judged(*paths: str, workers: int = 0) -> LaneRun:
    (lane,) = run(Plan([f"tests/gate/sample/{path}" for path in paths], SEED, workers))
    return lane


def test_a_test_that_passes_when_repeated_is_reported_and_rejects_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lane = judged("fails_once.py::test_fails_once", "fails_once.py::test_passes")
    file = tmp_path / "cache" / "unsteady.jsonl"
    assert report([lane], SEED, is_all=False, file=file)
    lines = capsys.readouterr().out.splitlines()
    assert f"unsteady: {FAILS_ONCE}::test_fails_once" in lines
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"
    (noted,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert (noted["id"], noted["seed"]) == (f"{FAILS_ONCE}::test_fails_once", SEED)


def test_a_test_that_fails_again_rejects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lane = judged("fails_always.py::test_fails_always[0]")
    assert not report([lane], SEED, is_all=False, file=tmp_path / "unsteady.jsonl")
    last = capsys.readouterr().out.splitlines()[-1]
    test = "tests/gate/sample/fails_always.py::test_fails_always[0]"
    assert last == f"FAILED {test} failed, and again when it was repeated alone"


def test_an_exact_test_has_no_second_chance() -> None:
    verdict = judged("fails_once.py::test_exact_fails_once").verdict
    test = f"{FAILS_ONCE}::test_exact_fails_once"
    assert verdict.reasons == [f"{test} failed, and a test marked `exact` has no second chance"]


def test_six_failures_are_not_repeated() -> None:
    verdict = judged("fails_always.py").verdict
    assert verdict.reasons[-1] == "6 tests failed, and no more than 5 are repeated"


def test_a_worker_that_crashes_rejects() -> None:
    assert any("crashed" in reason for reason in judged("crashes.py", "fails_once.py", workers=2).verdict.reasons)


def test_a_file_that_cannot_be_collected_rejects() -> None:
    reasons = judged("cannot_be_collected.py").verdict.reasons
    assert "tests/gate/sample/cannot_be_collected.py could not be collected" in reasons


def test_a_pure_test_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = judged("pure/breaks_its_lane.py").outcome
    assert {test.id.partition("::")[2]: test.outcome for test in outcome.tests.values()} == {
        "test_starts_a_process": "failed",
        "test_opens_a_port": "failed",
        "test_starts_nothing": "passed",
    }
