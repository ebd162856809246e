"""Expectations: rules that the rows of a flow's output should keep, and what becomes of rows that break one.

A rule is an SQL expression over the columns of the output. A row keeps it if it is true; false and null break it. Every
broken rule is counted, also where the row is dropped, rejected or stops the flow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.error_policy import ErrorPolicy
from tailrace.spark.connector.reject import Rejects, rejected_row
from tailrace.spark.connector.split import send_rejected
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import PipelineError
from tailrace.spark.message import explain_query
from tailrace.spark.record_place import ORIGIN, RecordPlace, split_origin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRIC = "tailrace_expect"


class OnFail(StrEnum):
    """What becomes of a row that breaks a rule."""

    WARN = "warn"
    DROP = "drop"
    REJECT = "reject"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Expectation:
    """A rule with its name."""

    name: str
    rule: str
    on_fail: OnFail


def check_expectations(given: Any) -> tuple[Expectation, ...]:
    """Return the expectations of a declaration; raises `PipelineError` if it is not one."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise PipelineError('expect= is a mapping such as {"positive": "cents > 0"}')
    return tuple(_check(name, one) for name, one in given.items())


def _check(name: Any, given: Any) -> Expectation:
    if not isinstance(name, str) or not name.strip():
        raise PipelineError(f"expect=: {name!r} is not the name of an expectation")
    settings = {"rule": given} if isinstance(given, str) else given
    if not isinstance(settings, Mapping) or not settings.keys() <= {"rule", "on_fail"}:
        raise PipelineError(f'expect=: {name} is a rule such as "cents > 0", or has the keys rule and on_fail')
    rule, on_fail = settings.get("rule"), settings.get("on_fail", OnFail.WARN)
    if not isinstance(rule, str) or not rule.strip():
        raise PipelineError(f'expect=: {name} has no rule such as "cents > 0"')
    if on_fail not in list(OnFail):
        raise PipelineError(f"expect=: {name}: on_fail={on_fail!r} is not one of {', '.join(OnFail)}")
    return Expectation(name, rule, OnFail(on_fail))


def check_rules(given: Any, errors: ErrorPolicy) -> tuple[Expectation, ...]:
    """Return the expectations of a flow; raises `PipelineError` if one rejects rows and there is no topic for them."""
    expectations = check_expectations(given)
    for each in expectations:
        if each.on_fail is OnFail.REJECT and errors.topic is None:
            raise PipelineError(
                f'expect=: {each.name}: on_fail="reject" needs errors={{"to": TOPIC}}; use "drop" or "fail"'
            )
    return expectations


def apply_expectations(rows: "DataFrame", expectations: Sequence[Expectation], rejects: Rejects) -> "DataFrame":
    """Count the rows that break rules, and drop them, reject them or fail where the rules say so."""
    from pyspark.sql.functions import coalesce, col, concat, count_if, expr, lit, raise_error, struct, to_json, when

    if not expectations:
        return rows
    kept = {each.name: _is_kept(rows, each) for each in expectations}
    checked = rows.observe(METRIC, *(count_if(~kept[each.name]).alias(each.name) for each in expectations))
    names, origin = split_origin(rows.columns)
    row = to_json(struct(*(col(f"`{name.replace('`', '``')}`") for name in names)))
    place = _shown_place() if origin else lit("")
    packed = concat(coalesce(col(ORIGIN), lit("")) if origin else lit(""), lit("\n"), row)
    for each in expectations:
        if each.on_fail is OnFail.FAIL:
            reason = lit(f"expectation {each.name} ({each.rule}) is broken by the row ")
            error = raise_error(concat(place, reason, row))
            checked = checked.where(when(kept[each.name], expr("true")).otherwise(error.cast("boolean")))
        elif each.on_fail is OnFail.DROP:
            checked = checked.where(kept[each.name])
        elif each.on_fail is OnFail.REJECT:
            checked = send_rejected(checked, ~kept[each.name], packed, rejects, _BrokenRule(each))
    return checked


@dataclass(frozen=True, slots=True)
class _BrokenRule:
    """Makes a rejected row of one that breaks a rule: the place of its record, a line end, and the row as JSON."""

    expectation: Expectation

    def __call__(self, packed: str) -> Rejected:
        origin, _, row = packed.partition("\n")
        name, rule = self.expectation.name, self.expectation.rule
        kind = f"{Expectation.__module__}.{Expectation.__qualname__}"
        fault = Fault(f"expectation {name} ({rule}) is broken", kind, kind)
        return rejected_row(Stage.TRANSFORM, fault, row.encode(), RecordPlace.unpack(origin))


def _is_kept(rows: "DataFrame", expectation: Expectation) -> "Column":
    """Return the rule as a condition that is never null; raises `PipelineError` if it is not one over these columns."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.functions import coalesce, count_if, expr

    try:
        rule = expr(expectation.rule)
        kind = rows.select(rule.alias("rule")).schema["rule"].dataType.simpleString()
        if kind != "boolean":
            raise PipelineError(f"expectation {expectation.name}: {expectation.rule!r} is {kind}, not true or false")
        rows.observe(
            METRIC, count_if(rule).alias("rule")
        )  # fails for aggregates and windows, which a selection may have
    except AnalysisException as error:
        reason = explain_query(str(error)).reason
        raise PipelineError(f"expectation {expectation.name}: {expectation.rule!r} is not a rule: {reason}") from None
    return coalesce(rule, expr("false"))


def _shown_place() -> "Column":
    """Return the place of the row's record as errors show it, such as "orders-0 offset 7: "."""
    from pyspark.sql.functions import coalesce, col, concat, lit, split

    parts = split(col(ORIGIN), " ")
    return coalesce(concat(parts[0], lit("-"), parts[1], lit(" offset "), parts[2], lit(": ")), lit(""))
