"""Which failures are repeated, and which reject at once."""

import pytest
from tests.gate.outcome import Outcome, Result
from tests.gate.verdict import Verdict, judge


def outcome_of(*outcomes: str, crashes: tuple[str, ...] = (), exact: tuple[int, ...] = ()) -> Outcome:
    tests = {f"t{index}": Result(f"t{index}", what, is_exact=index in exact) for index, what in enumerate(outcomes)}
    return Outcome(tests, list(crashes))


class Script:
    """Answers repetitions as told, and notes them."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, test: Result) -> bool:
        self.asked.append(test.id)
        return self.answers.pop(0)


def judged(
    outcome: Outcome, *answers: bool, known: set[str] | None = None, second: bool = True
) -> tuple[Verdict, Script]:
    script = Script(*answers)
    return judge(outcome, has_second_chance=second, known=known or set(), repeat=script), script


def test_what_passed_is_not_repeated() -> None:
    verdict, script = judged(outcome_of("passed", "skipped"))
    assert (verdict.passes, script.asked) == (True, [])


def test_a_failure_is_repeated_twice() -> None:
    verdict, script = judged(outcome_of("failed", "passed"), True, True)
    assert (verdict.passes, script.asked, [test.id for test in verdict.unsteady]) == (True, ["t0", "t0"], ["t0"])


@pytest.mark.parametrize("answers", [(False,), (True, False)])
def test_a_repetition_that_fails_rejects(answers: tuple[bool, ...]) -> None:
    verdict, script = judged(outcome_of("failed"), *answers)
    assert (verdict.passes, len(script.asked), verdict.unsteady) == (False, len(answers), [])


def test_five_failures_are_repeated_and_six_are_not() -> None:
    assert judged(outcome_of(*["failed"] * 5), *[True] * 10)[0].passes
    verdict, script = judged(outcome_of(*["failed"] * 6))
    assert (verdict.passes, script.asked) == (False, [])


def test_an_exact_test_rejects_at_once() -> None:
    verdict, script = judged(outcome_of("failed", "failed", exact=(1,)))
    assert (verdict.passes, script.asked) == (False, [])


def test_the_pure_lane_has_no_second_chance() -> None:
    verdict, script = judged(outcome_of("failed"), second=False)
    assert (verdict.reasons, script.asked) == (["t0 failed"], [])


def test_a_crash_rejects_although_no_test_failed() -> None:
    assert judged(outcome_of("passed", crashes=("worker gw0 crashed",)))[0].reasons == ["worker gw0 crashed"]


def test_a_known_failure_is_reported_and_rejects_nothing() -> None:
    verdict, script = judged(outcome_of("failed", "passed"), known={"t0"})
    assert (verdict.passes, script.asked, [test.id for test in verdict.quarantined]) == (True, [], ["t0"])


def test_a_failed_phase_decides_and_all_phases_take_time() -> None:
    outcome = Outcome()
    for phase, seconds in (("passed", 1.0), ("skipped", 0.5), ("failed", 0.25)):
        outcome.add_phase("t", phase, seconds, is_exact=False)
    outcome.add_phase("t", "passed", 0.25, is_exact=False)
    assert (outcome.tests["t"].outcome, outcome.tests["t"].seconds) == ("failed", 2.0)
