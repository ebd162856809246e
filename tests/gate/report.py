"""The end of a run: times, counts, unsteady tests and, last of all, what failed."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gate.lane import CHECKOUT, files_below
from tests.gate.outcome import Outcome
from tests.gate.run import LaneRun
from tests.gate.verdict import Verdict
from tests.missing_part import missing_lines

SLOWEST = 20
UNSTEADY_FILE = CHECKOUT / ".cache" / "unsteady.jsonl"


def report(
    runs: list[LaneRun], seed: int, *, is_all: bool, paths: Sequence[str] = (), file: Path = UNSTEADY_FILE
) -> bool:
    """Print the end of a run and note its unsteady tests; returns whether it passes."""
    total, verdict = Outcome(), Verdict()
    for run in runs:
        total.add(run.outcome)
        verdict.add(run.verdict)
    print(f"\nThe {SLOWEST} slowest tests, with their fixtures:")
    for test in sorted(total.tests.values(), key=lambda test: test.seconds, reverse=True)[:SLOWEST]:
        print(f"{test.seconds:8.1f} s  {test.id}")
    for run in runs:
        print(f"lane {run.name}: {len(run.outcome.tests)} tests in {run.seconds:.0f} s")
    for line in missing_lines(test.skip_reason for test in total.tests.values()):
        print(line)
    for test in verdict.quarantined:
        print(f"quarantined: {test.id}")
    for test in verdict.unsteady:
        print(f"unsteady: {test.id}")
    _note_unsteady(verdict, seed, file)
    if not total.tests and verdict.passes:
        verdict.reasons.append(_why_none(paths, is_all=is_all))
    if not verdict.passes:
        print(f"This order is repeated by: make {'test-all' if is_all else 'test'} SEED={seed}")
    forgiven = len(verdict.unsteady) + len(verdict.quarantined)
    passed, failed = total.count("passed") + forgiven, total.count("failed") - forgiven
    print(f"{passed} passed, {failed} failed, {total.count('skipped')} skipped")
    for reason in verdict.reasons:
        print(f"FAILED {reason}")
    return verdict.passes


def _why_none(paths: Sequence[str], *, is_all: bool) -> str:
    """Say why no test was run, and what runs those of the paths."""
    given = " ".join(paths)
    if is_all or not any((CHECKOUT / file).exists() for file in files_below(path.partition("::")[0] for path in paths)):
        return f"no test was run: there is none in {given}"
    return (
        f"no test was run: what is in {given} is slow or needs more than PyPI, "
        f'and make test-all TESTS="{given}" runs it'
    )


def _note_unsteady(verdict: Verdict, seed: int, file: Path) -> None:
    if not verdict.unsteady:
        return
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        for test in verdict.unsteady:
            out.write(json.dumps({"id": test.id, "seed": seed, "at": at}) + "\n")
