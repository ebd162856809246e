"""Runs the lanes, and says at the end what failed.

The lanes of brokers and of processes wait for most of their time. So they run one after the other, with the lane of
pure tests beside them at low priority.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tests.gate import outcome, quarantine
from tests.gate.lane import CHECKOUT, LANES, PURE, Lane, files_below, lane_of
from tests.gate.outcome import Outcome, Result
from tests.gate.verdict import FAILURES_MAX, Verdict, judge

QUICK = "not slow and not needs"
"""Tests that need nothing but PyPI, and no more than seconds each."""
FAILED_OR_NOT = (0, 1, 5)
"""The statuses of pytest with which a run is complete: passed, some failed, no tests selected."""
LANE_LIMIT_S = 3_000
LONG_LANE_LIMIT_S = 9_000
"""The limit with everything. A run beside other work was through 42% of the lane of processes after 25 minutes."""
REPETITION_LIMIT_S = 1_200
LOW_PRIORITY = "19"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: paths or ids below the checkout, and how."""

    paths: Sequence[str]
    seed: int
    workers: int
    is_all: bool = False

    def selected(self, lane: Lane) -> list[str]:
        """Return the arguments for pytest that belong to the lane."""
        ids = [path for path in self.paths if "::" in path and lane_of(path) is lane]
        files = files_below(path for path in self.paths if "::" not in path)
        return ids + [file for file in files if lane_of(file) is lane]


@dataclass(slots=True)
class LaneRun:
    """The results of one lane and the time it took."""

    name: str
    outcome: Outcome
    verdict: Verdict
    seconds: float


def run(plan: Plan) -> list[LaneRun]:
    """Run every lane that has tests; of those that run one after the other, none after one that rejects."""
    known = {entry.test_id for entry in quarantine.read()}
    selected = {lane: files for lane in LANES if (files := plan.selected(lane))}
    first, *others = selected or [PURE]
    if first is not PURE or not others:
        return _run_in_turn(selected, plan, known)
    with ThreadPoolExecutor(1) as beside, tempfile.TemporaryFile("w+") as told:
        _say(f"lane {PURE.name}: {len(selected[PURE])} files, beside the others; its output follows theirs")
        pure = beside.submit(_run_lane, PURE, selected.pop(PURE), plan, known, told)
        runs = _run_in_turn(selected, plan, known)
        _say(f"lane {PURE.name}")
        pure_run = pure.result()
        told.seek(0)
        shutil.copyfileobj(told, sys.stdout)
    return [pure_run, *runs]


def _run_in_turn(selected: Mapping[Lane, Sequence[str]], plan: Plan, known: set[str]) -> list[LaneRun]:
    runs: list[LaneRun] = []
    for lane, files in selected.items():
        _say(f"lane {lane.name}: {len(files)} files")
        runs.append(_run_lane(lane, files, plan, known))
        if not runs[-1].verdict.passes:
            break
    return runs


def _run_lane(
    lane: Lane, selected: Sequence[str], plan: Plan, known: set[str], beside: TextIO | None = None
) -> LaneRun:
    """Run a lane; one that runs beside others has low priority, and writes its output to a file."""
    workers = plan.workers * lane.workers_per_core
    options = ["-n", str(workers), "--dist", "worksteal", f"--maxfail={FAILURES_MAX + 1 + len(known)}"]
    options += ["--hypothesis-profile=fresh"] if plan.is_all else ["-m", QUICK]
    began = time.monotonic()
    limit_s = LONG_LANE_LIMIT_S if plan.is_all else LANE_LIMIT_S
    found = _pytest([*options, f"--randomly-seed={plan.seed}", *selected], limit_s, beside)
    verdict = judge(found, has_second_chance=lane.has_second_chance, known=known, repeat=_repeat(plan.seed))
    return LaneRun(lane.name, found, verdict, time.monotonic() - began)


def _repeat(seed: int) -> Callable[[Result], bool]:
    def repeat(test: Result) -> bool:
        _say(f"once more, alone: {test.id}")
        found = _pytest(["-n", "0", "-rA", f"--randomly-seed={seed}", test.id], REPETITION_LIMIT_S)
        return not found.crashes and [again.outcome for again in found.tests.values()] == ["passed"]

    return repeat


def _pytest(arguments: list[str], limit_s: float, beside: TextIO | None = None) -> Outcome:
    """Run pytest in a process of its own and return its results; `beside` takes its output at low priority."""
    with tempfile.TemporaryDirectory(prefix="gate-") as folder:
        file = Path(folder) / "results"
        command = [sys.executable, "-m", "pytest", "-p", "tests.gate.plugin", "--gate-results", str(file), *arguments]
        if beside is not None:
            command = ["nice", "-n", LOW_PRIORITY, *command]
        try:
            status = subprocess.run(
                command, cwd=CHECKOUT, env=_environment(), timeout=limit_s, check=False, stdout=beside, stderr=beside
            ).returncode
            found = outcome.read(file)
            if status not in FAILED_OR_NOT and len(found.failed) <= FAILURES_MAX:
                found.crashes.append(f"pytest ended with status {status}")
            elif status == 1 and not found.failed:
                found.crashes.append("pytest found a failure that belongs to no test")
        except subprocess.TimeoutExpired:
            found = outcome.read(file)
            found.crashes.append(f"pytest did not end within {limit_s:.0f} s")
    return found


def _environment() -> dict[str, str]:
    """Return the environment of pytest.

    Without bytecode on disk each worker of each lane would compile all tests again, and each process that a test starts
    the whole package.
    """
    paths = [str(CHECKOUT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def _say(text: str) -> None:
    print(f"\n=== {text}", flush=True)
