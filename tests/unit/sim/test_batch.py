"""Many seeds in one run: what is counted, when it stops, what it says."""

import io
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tailrace.sim import batch, simulate
from tailrace.sim.batch import run_batch
from tailrace.sim.simulation import Outcome

pytestmark = pytest.mark.slow


def play(seed: int) -> Outcome:
    """Seeds that divide by five fail."""
    problems = [f"lost {seed}"] if seed % 5 == 0 else []
    counts = Counter({"acknowledged": 10 * seed, "kill broker": 2})
    return Outcome(seed, problems, "", "", 100, 36.0, ["it began", "it ended"], [], counts)


def play_for_ever(seed: int) -> Outcome:
    """Seed 3 does not come back."""
    while seed == 3:
        pass
    return play(seed)


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_all_seeds_are_counted_and_those_that_failed_are_kept(jobs: int) -> None:
    total = run_batch(range(1, 11), play, jobs=jobs, keeps_going=True, progress=None)
    assert (total.seed_count, total.step_count, total.acknowledged_min) == (10, 1000, 10)
    assert total.counts == {"acknowledged": 550, "kill broker": 20}
    assert sorted((failed.seed, failed.problems[0]) for failed in total.failures) == [(5, "lost 5"), (10, "lost 10")]
    assert all(failed.notes == ["it began", "it ended"] for failed in total.failures)


def test_the_first_failure_ends_a_run() -> None:
    progress = io.StringIO()
    total = run_batch(range(1, 11), play, progress=progress)
    assert (total.seed_count, [failed.seed for failed in total.failures]) == (5, [5])
    assert "5/10 seeds" in progress.getvalue()
    assert "1 failed" in progress.getvalue()


def test_who_interrupts_a_run_is_told_what_was_done() -> None:
    def interrupted(seed: int) -> Outcome:
        if seed == 4:
            raise KeyboardInterrupt
        return play(seed)

    assert run_batch(range(1, 11), interrupted, progress=None).seed_count == 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_seed_that_goes_round_for_ever_has_failed(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "SEED_CPU_S_MAX", 0.05)
    total = run_batch(range(1, 5), play_for_ever, jobs=jobs, keeps_going=True, progress=None)
    assert total.seed_count == 4
    [failed] = total.failures
    assert failed.seed == 3
    assert "play_for_ever" in failed.problems[0]


def test_a_failure_comes_with_its_command_and_a_summary(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr(simulate, "play", lambda seed, **_: play(seed))
    path = tmp_path / "summary.md"
    assert simulate.main(["--cluster", "--seed", "3", "--seeds", "4", "--summary", str(path)]) == 1
    assert "repeat with: python -m tailrace.sim.simulate --seed 5 --cluster --trace" in capsys.readouterr().out
    assert "- seed 5: lost 5" in path.read_text()
    assert "| kill broker | 6 |" in path.read_text()


def test_one_seed_is_one_story_in_every_process() -> None:
    command = [sys.executable, "-m", "tailrace.sim.simulate", "--seed", "5", "--for", "1"]
    lines = {
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": str(number)}
        ).stdout
        for number in (1, 2)
    }
    assert len(lines) == 1
