"""The decision about a run: what is repeated, and whether the run passes.

A test that fails now and then is a bug report about the test or the product. The second chance keeps one such test from
rejecting a good change, and hides nothing: every test that needed it is reported.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.gate.outcome import Outcome, Result

FAILURES_MAX = 5
"""More failures at once are no accident."""
REPETITIONS = 2

Repeat = Callable[[Result], bool]
"""Runs a test again, alone and in a fresh process; returns whether it passed."""


@dataclass(slots=True)
class Verdict:
    """Why a run is rejected, if it is, and the tests that passed only when they were repeated."""

    reasons: list[str] = field(default_factory=list)
    unsteady: list[Result] = field(default_factory=list)
    quarantined: list[Result] = field(default_factory=list)

    @property
    def passes(self) -> bool:
        return not self.reasons

    def add(self, other: "Verdict") -> None:
        """Add the verdict about another lane."""
        self.reasons += other.reasons
        self.unsteady += other.unsteady
        self.quarantined += other.quarantined


def judge(outcome: Outcome, *, has_second_chance: bool, known: set[str], repeat: Repeat) -> Verdict:
    """Judge the results of a lane; `known` are the ids in quarantine."""
    verdict = Verdict([*outcome.crashes], quarantined=[test for test in outcome.failed if test.id in known])
    failed = [test for test in outcome.failed if test.id not in known]
    final = [test for test in failed if test.is_exact or not has_second_chance]
    verdict.reasons += [f"{test.id} failed{_why_final(test)}" for test in final]
    if len(failed) > FAILURES_MAX:
        verdict.reasons += [f"{test.id} failed" for test in failed if test not in final]
        verdict.reasons.append(f"{len(failed)} tests failed, and no more than {FAILURES_MAX} are repeated")
    if verdict.reasons:
        return verdict
    for test in failed:
        if all(repeat(test) for _ in range(REPETITIONS)):
            verdict.unsteady.append(test)
        else:
            verdict.reasons.append(f"{test.id} failed, and again when it was repeated alone")
    return verdict


def _why_final(test: Result) -> str:
    return ", and a test marked `exact` has no second chance" if test.is_exact else ""
