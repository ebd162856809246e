"""What a bound means in each partition, with brokers that are a dictionary."""

from collections.abc import Mapping

import pytest

from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.bound import AtOffsets, AtTime, AtTimes, Bound, Edge, NoMatch, Resolved, resolve
from tailrace.spark.error import OptionError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, LAST = {A: 10, B: 20}, {A: 110, B: 20}
YOUNG: dict[TopicPartition, int | None] = {A: 50, B: None}  # partition B is empty


def ask(asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    return {
        key: FIRST[key] if time_ms == Edge.EARLIEST else LAST[key] if time_ms == Edge.LATEST else YOUNG[key]
        for key, time_ms in asked.items()
    }


def start(bound: Bound, no_match: NoMatch = NoMatch.ERROR) -> Resolved:
    return resolve(bound, [A, B], ask, option="startingOffsets", is_start=True, no_match=no_match)


def test_the_edges_of_the_log() -> None:
    assert start(Edge.EARLIEST) == Resolved(FIRST)
    assert start(Edge.LATEST) == Resolved(LAST, floating={A, B})


def test_offsets_may_stand_for_edges() -> None:
    assert start(AtOffsets({A: 42, B: -1})) == Resolved({A: 42, B: 20}, given={A}, floating={B})
    assert start(AtOffsets({A: -2, B: 3})) == Resolved({A: 10, B: 3}, given={B})


@pytest.mark.parametrize("bound", [AtOffsets({A: 1}), AtTimes({A: 1})])
def test_every_partition_must_be_named(bound: Bound) -> None:
    with pytest.raises(OptionError, match="option startingOffsets: t-1 is missing"):
        start(bound)


def test_a_partition_that_is_not_read_is_refused() -> None:
    with pytest.raises(OptionError, match="option startingOffsets: this query does not read u-0"):
        start(AtOffsets({A: 1, B: 2, TopicPartition("u", 0): 3}))


def test_a_start_at_a_time_that_nothing_is_as_young_as() -> None:
    with pytest.raises(OptionError, match=r"t-1 has no record at or after 7 ms.*startingOffsetsByTimestampStrategy"):
        start(AtTime(7))
    assert start(AtTime(7), NoMatch.LATEST) == Resolved({A: 50, B: 20}, floating={B})
    assert start(AtTimes({A: 7, B: 8}), NoMatch.LATEST).offsets == {A: 50, B: 20}


def test_an_end_at_such_a_time_is_the_end() -> None:
    found = resolve(AtTime(7), [A, B], ask, option="endingTimestamp", is_start=False)
    assert found.offsets == {A: 50, B: 20}


def test_nothing_is_asked_where_nothing_is_to_be_found_out() -> None:
    def fail(asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        raise AssertionError(asked)

    assert resolve(AtOffsets({A: 3}), [A], fail, option="x", is_start=True).offsets == {A: 3}
    assert resolve(Edge.EARLIEST, [], fail, option="x", is_start=True).offsets == {}
