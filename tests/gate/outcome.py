"""The file in which a pytest run of the gate leaves its results, one JSON object a line."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Result:
    """What happened to one test; the duration includes its fixtures."""

    id: str
    outcome: str = "passed"
    seconds: float = 0.0
    is_exact: bool = False
    skip_reason: str = ""


@dataclass(slots=True)
class Outcome:
    """What happened in one run of pytest, or in several together."""

    tests: dict[str, Result] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    """Workers that ended before their tests, and files that could not be collected."""

    @property
    def failed(self) -> list[Result]:
        """The tests that failed, in the order in which they ran."""
        return [test for test in self.tests.values() if test.outcome == "failed"]

    def count(self, outcome: str) -> int:
        """Return the number of tests with this outcome."""
        return sum(test.outcome == outcome for test in self.tests.values())

    def add(self, other: "Outcome") -> None:
        """Add the results of another run."""
        self.tests |= other.tests
        self.crashes += other.crashes

    def add_phase(self, test_id: str, outcome: str, seconds: float, *, is_exact: bool, skip_reason: str = "") -> None:
        """Note the set-up, the call or the tear-down of a test; the one that failed decides."""
        test = self.tests.setdefault(test_id, Result(test_id, is_exact=is_exact))
        test.seconds += seconds
        if outcome == "failed" or (outcome == "skipped" and test.outcome == "passed"):
            test.outcome, test.skip_reason = outcome, skip_reason


def write(path: Path, outcome: Outcome) -> None:
    """Write the results of a run."""
    lines = [asdict(test) for test in outcome.tests.values()] + [{"crash": crash} for crash in outcome.crashes]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read(path: Path) -> Outcome:
    """Read the results of a run; none at all if pytest ended before it wrote them."""
    outcome = Outcome()
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if "crash" in entry:
            outcome.crashes.append(entry["crash"])
        else:
            outcome.tests[entry["id"]] = Result(**entry)
    return outcome
