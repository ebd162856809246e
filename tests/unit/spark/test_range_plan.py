"""From two positions to the ranges that tasks read, and what is told when records are gone."""

import logging
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.logged import logged

from tailrace.base.limits import SPARK_TASK_OFFSETS_SHARED_MAX
from tailrace.client.topic_partition import TopicPartition
from tailrace.spark.data_loss import Loss
from tailrace.spark.error import DataLossError
from tailrace.spark.option import SplitOptions
from tailrace.spark.plan import OffsetRange, check_given, cut, pack_ranges, plan_ranges, split_ranges

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FAIL, GO_ON = Loss(True), Loss(False)


def test_what_lies_between_two_positions_is_read() -> None:
    assert plan_ranges({A: 3, B: 7}, {A: 5, B: 7}, {}, FAIL) == [OffsetRange("t", 0, 3, 5)]


def test_a_new_partition_is_read_from_its_beginning() -> None:
    assert plan_ranges({A: 3}, {A: 3, B: 4}, {B: 0}, FAIL) == [OffsetRange("t", 1, 0, 4)]


@pytest.mark.parametrize(
    ("start", "end", "first", "message"),
    [
        ({A: 3}, {A: 3, B: 4}, {B: 2}, "the new partition t-1 starts at 2 instead of 0"),
        ({A: 3}, {A: 3, B: 4}, {}, "t-1 was created and deleted before the query read any record"),
        ({A: 3, B: 1}, {A: 3}, {}, "t-1 was deleted"),
        ({A: 3}, {A: 2}, {}, "t-0 ends at 2, before the query's position 3"),
    ],
)
def test_lost_records_stop_the_query_or_are_told(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    first: dict[TopicPartition, int],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(DataLossError, match=f"{message}.*Set option failOnDataLoss to false"):
        plan_ranges(start, end, first, FAIL)
    with caplog.at_level(logging.WARNING):
        plan_ranges(start, end, first, GO_ON)
    assert message in logged(caplog)


def test_a_query_that_may_lose_records_goes_on_with_what_is_left() -> None:
    assert plan_ranges({A: 3}, {A: 2, B: 4}, {B: 2}, GO_ON) == [OffsetRange("t", 1, 2, 4)]


# --- splitting


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", index, 100, 100 + size) for index, size in enumerate(sizes)]


def sizes(found: Sequence[OffsetRange]) -> list[int]:
    return [one.size for one in found]


def test_without_options_each_partition_is_a_task() -> None:
    assert split_ranges(ranges(5, 0, 7), SplitOptions()) == [
        OffsetRange("t", 0, 100, 105),
        OffsetRange("t", 2, 100, 107),
    ]


def test_no_task_reads_more_than_allowed() -> None:
    assert sizes(split_ranges(ranges(10, 3), SplitOptions(records_max=4))) == [3, 3, 4, 3]


def test_there_are_at_least_so_many_tasks() -> None:
    assert len(split_ranges(ranges(100, 100), SplitOptions(partitions_min=4))) == 4


def test_enough_partitions_stay_whole() -> None:
    assert split_ranges(ranges(100, 1), SplitOptions(partitions_min=2)) == ranges(100, 1)


def test_a_small_partition_stays_whole_and_a_large_one_is_cut_into_the_rest() -> None:
    """As in Kafka's connector: the small ones are taken out of the reckoning before shares are given."""
    assert sizes(split_ranges(ranges(1, 1, 1000), SplitOptions(partitions_min=6))) == [1, 1, 250, 250, 250, 250]


def test_both_options_work_together() -> None:
    assert sizes(split_ranges(ranges(10), SplitOptions(partitions_min=5, records_max=5))) == [1, 2, 2, 1, 2, 2]


@given(st.integers(0, 2**50), st.integers(1, 2**40), st.integers(1, 500))
def test_the_parts_of_a_range_are_the_range(start: int, size: int, count: int) -> None:
    whole = OffsetRange("t", 0, start, start + size)
    parts = cut(whole, count)
    assert parts[0].start == whole.start
    assert parts[-1].end == whole.end
    assert all(before.end == after.start for before, after in pairwise(parts))
    assert len(parts) == min(count, size)
    assert max(sizes(parts)) - min(sizes(parts)) <= 1


@given(
    st.lists(st.integers(0, 1000), max_size=20),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 50),
)
def test_splitting_loses_nothing(counts: list[int], partitions_min: int | None, records_max: int | None) -> None:
    found = split_ranges(ranges(*counts), SplitOptions(partitions_min, records_max))
    assert sum(sizes(found)) == sum(counts)
    assert all(size > 0 for size in sizes(found))
    assert records_max is None or all(size <= records_max for size in sizes(found))


# --- offsets that a user named


def test_offsets_within_the_log_are_taken() -> None:
    assert check_given({A: 3, B: 9}, [A], {A: 0}, {A: 3}, "startingOffsets", FAIL) == {A: 3, B: 9}


@pytest.mark.parametrize(("offset", "nearest"), [(1, 2), (9, 8)])
def test_offsets_outside_are_refused_or_moved(offset: int, nearest: int) -> None:
    with pytest.raises(
        DataLossError,
        match=f"option startingOffsets: offset {offset} of t-0 is out of range; .* from 2 to 8.*failOnDataLoss",
    ):
        check_given({A: offset}, [A], {A: 2}, {A: 8}, "startingOffsets", FAIL)
    assert check_given({A: offset}, [A], {A: 2}, {A: 8}, "startingOffsets", GO_ON) == {A: nearest}


def test_small_ranges_share_a_task_until_there_is_enough_for_more() -> None:
    few, many = SPARK_TASK_OFFSETS_SHARED_MAX // 4, SPARK_TASK_OFFSETS_SHARED_MAX + 1

    def tasks(*counts: int) -> list[list[int]]:
        return [sizes(task) for task in pack_ranges(ranges(*counts), SplitOptions())]

    assert tasks() == []
    assert tasks(few, few, few) == [[few, few, few]]
    assert tasks(few, few, few, few, few) == [[few] * 4, [few]]
    assert tasks(many, few, many, few) == [[many], [few], [many], [few]]


def test_ranges_that_the_options_divide_have_tasks_of_their_own() -> None:
    for options in (SplitOptions(partitions_min=1), SplitOptions(records_max=100)):
        assert [sizes(task) for task in pack_ranges(ranges(1, 2), options)] == [[1], [2]]
