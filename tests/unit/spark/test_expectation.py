"""Declaring expectations: what is taken and what is refused."""

from typing import Any

import pytest

from tailrace.pipeline import PipelineError, flow, topic
from tailrace.spark.pipeline.expectation import METRIC, Expectation, OnFail, check_expectations
from tailrace.spark.pipeline.tally import FlowTally


def test_a_rule_warns_unless_it_says_otherwise() -> None:
    given = {"positive": "cents > 0", "named": {"rule": "user IS NOT NULL", "on_fail": "drop"}}
    assert check_expectations(given) == (
        Expectation("positive", "cents > 0", OnFail.WARN),
        Expectation("named", "user IS NOT NULL", OnFail.DROP),
    )
    assert check_expectations(None) == ()


WRONG: list[tuple[Any, str]] = [
    ("cents > 0", 'expect= is a mapping such as {"positive": "cents > 0"}'),
    ({7: "x"}, "expect=: 7 is not the name of an expectation"),
    ({"a": 7}, 'expect=: a is a rule such as "cents > 0", or has the keys rule and on_fail'),
    (
        {"a": {"rule": "x", "action": "drop"}},
        'expect=: a is a rule such as "cents > 0", or has the keys rule and on_fail',
    ),
    ({"a": {"on_fail": "drop"}}, 'expect=: a has no rule such as "cents > 0"'),
    (
        {"a": {"rule": "x", "on_fail": "explode"}},
        "expect=: a: on_fail='explode' is not one of warn, drop, reject, fail",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_is_not_an_expectation_is_refused(given: Any, message: str) -> None:
    with pytest.raises(PipelineError) as caught:
        check_expectations(given)
    assert str(caught.value) == message


def test_a_flow_has_the_expectations_of_its_declaration() -> None:
    declared = flow(source=topic("a"), sink=topic("b"), expect={"x": "n > 0"})(lambda rows: rows)
    assert declared.expectations == (Expectation("x", "n > 0", OnFail.WARN),)


def test_broken_rules_are_counted_over_batches() -> None:
    tally = FlowTally("f")
    for count in (2, 0, 3):
        tally.add({"observedMetrics": {METRIC: {"positive": count}}}, 1.0)
    assert tally.broken == {"positive": 5}
    assert tally.copy().broken == {"positive": 5}
