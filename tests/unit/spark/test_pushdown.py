"""What of a query's filters is answered by reading less. The filters are Spark's own where it is installed."""

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.plan import OffsetRange
from tailrace.spark.pushdown import PushedFilters

WHOLE = [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 50, 150), OffsetRange("b", 0, 0, 10)]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@dataclass(frozen=True)
class Not:
    child: Any


@dataclass(frozen=True)
class IsNull:
    attribute: tuple[str, ...]


@dataclass(frozen=True)
class IsNotNull:
    attribute: tuple[str, ...]


def kind(name: str) -> Callable[[str, Any], Any]:
    """Makes filters of a class that has the name and fields of Spark's."""
    made = make_dataclass(name, ["attribute", "value"], frozen=True)
    return lambda column, value: made((column,), value)


EqualTo, EqualNullSafe, In = kind("EqualTo"), kind("EqualNullSafe"), kind("In")
GreaterThan, GreaterThanOrEqual = kind("GreaterThan"), kind("GreaterThanOrEqual")
LessThan, LessThanOrEqual = kind("LessThan"), kind("LessThanOrEqual")
StringStartsWith, StringEndsWith, StringContains = map(kind, ("StringStartsWith", "StringEndsWith", "StringContains"))


def narrow(*filters: Any) -> tuple[list[OffsetRange], int]:
    """What is read, and how many filters are left for Spark."""
    pushed = PushedFilters()
    left = pushed.push(filters)
    return pushed.narrow(WHOLE, {}), len(left)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GreaterThan("offset", 60), [("a", 0, 61, 100), ("a", 1, 61, 150)]),
        (GreaterThanOrEqual("offset", 60), [("a", 0, 60, 100), ("a", 1, 60, 150)]),
        (LessThan("offset", 5), [("a", 0, 0, 5), ("b", 0, 0, 5)]),
        (LessThanOrEqual("offset", 5), [("a", 0, 0, 6), ("b", 0, 0, 6)]),
        (EqualTo("offset", 120), [("a", 1, 120, 121)]),
        (EqualNullSafe("offset", 120), [("a", 1, 120, 121)]),
        (EqualTo("offset", -1), []),
        (EqualTo("partition", 1), [("a", 1, 50, 150)]),
        (GreaterThan("partition", 0), [("a", 1, 50, 150)]),
        (In("partition", (1, 2)), [("a", 1, 50, 150)]),
        (Not(EqualTo("partition", 0)), [("a", 1, 50, 150)]),
        (IsNull(("partition",)), []),
        (EqualTo("topic", "b"), [("b", 0, 0, 10)]),
        (In("topic", ("b", "c")), [("b", 0, 0, 10)]),
        (StringStartsWith("topic", "b"), [("b", 0, 0, 10)]),
        (StringEndsWith("topic", "b"), [("b", 0, 0, 10)]),
        (StringContains("topic", "b"), [("b", 0, 0, 10)]),
        (Not(StringContains("topic", "a")), [("b", 0, 0, 10)]),
    ],
)
def test_a_filter_that_is_answered_by_reading_less(one: Any, expected: list[tuple[str, int, int, int]]) -> None:
    assert narrow(one) == (expected, 0)


@pytest.mark.parametrize("column", ["offset", "partition", "topic", "timestamp"])
def test_these_columns_are_never_null(column: str) -> None:
    assert narrow(IsNotNull((column,))) == (WHOLE, 0)


def test_several_filters_hold_at_once() -> None:
    found = narrow(GreaterThanOrEqual("offset", 60), LessThan("offset", 70), EqualTo("partition", 1))
    assert found == ([("a", 1, 60, 70)], 0)


def test_offsets_out_of_a_list_are_read_together_and_left_to_spark() -> None:
    assert narrow(In("offset", (5, 80))) == ([("a", 0, 5, 81), ("a", 1, 50, 81), ("b", 0, 5, 10)], 1)


@pytest.mark.parametrize(
    "one",
    [
        EqualTo("key", b"x"),
        StringStartsWith("value", "x"),
        EqualTo("timestampType", 0),
        Not(EqualTo("offset", 5)),
        IsNull(("offset",)),
        EqualTo("offset", 5.5),
        EqualTo("offset", None),
        EqualTo("partition", "0"),
        EqualNullSafe("topic", None),
        In("topic", ("a", None)),
        In("offset", ()),
        kind("Like")("topic", "a%"),
    ],
)
def test_other_filters_are_left_to_spark(one: Any) -> None:
    assert narrow(one) == (WHOLE, 1)


@pytest.mark.parametrize("make", [GreaterThan, GreaterThanOrEqual, EqualTo, EqualNullSafe])
def test_records_from_a_time_on_start_at_the_first_that_is_as_young(make: Callable[[str, Any], Any]) -> None:
    pushed = PushedFilters()
    one = make("timestamp", NOW)
    assert pushed.push([one]) == [one]  # an older record may follow, so Spark looks again
    assert pushed.time_min_ms == NOW_MS
    young = {TopicPartition("a", 0): 70, TopicPartition("a", 1): 20, TopicPartition("b", 0): None}
    assert pushed.narrow(WHOLE, young) == [("a", 0, 70, 100), ("a", 1, 50, 150)]


def test_a_time_between_milliseconds_is_rounded_down() -> None:
    pushed = PushedFilters()
    pushed.push([GreaterThan("timestamp", NOW + timedelta(microseconds=1999))])
    assert pushed.time_min_ms == NOW_MS + 1


def test_the_latest_of_several_times_counts() -> None:
    pushed = PushedFilters()
    pushed.push([GreaterThan("timestamp", NOW), GreaterThan("timestamp", NOW - timedelta(hours=1))])
    assert pushed.time_min_ms == NOW_MS


@pytest.mark.parametrize(
    "one",
    [
        LessThan("timestamp", NOW),
        LessThanOrEqual("timestamp", NOW),
        GreaterThan("timestamp", NOW.replace(tzinfo=None)),
        GreaterThan("timestamp", datetime(1960, 1, 1, tzinfo=UTC)),
        Not(GreaterThan("timestamp", NOW)),
    ],
)
def test_nothing_is_left_out_for_a_time_that_says_nothing(one: Any) -> None:
    pushed = PushedFilters()
    assert pushed.push([one]) == [one]
    assert pushed.time_min_ms is None
    assert pushed.narrow(WHOLE, {}) == WHOLE


def test_the_names_are_those_of_spark() -> None:
    datasource = pytest.importorskip("pyspark.sql.datasource", reason="pyspark is not installed")
    pushed = PushedFilters()
    left = pushed.push(
        [
            datasource.Not(datasource.EqualTo(("partition",), 0)),
            datasource.In(("topic",), ("a",)),
            datasource.GreaterThanOrEqual(("offset",), 60),
            datasource.IsNotNull(("offset",)),
            datasource.EqualTo(("headers", "key"), "x"),
        ]
    )
    assert pushed.narrow(WHOLE, {}) == [("a", 1, 60, 150)]
    assert left == [datasource.EqualTo(("headers", "key"), "x")]
