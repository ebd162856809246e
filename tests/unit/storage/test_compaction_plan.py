"""Which part of a log is compacted, and which segments together."""

from dataclasses import replace

from tests.unit.storage.compacting import CONFIG, append, compact, dirt_of, filled
from tests.unit.storage.workbench import Workbench

from tailrace.base.limits import COMPACTION_GROUP_SEGMENTS_MAX
from tailrace.storage.compaction_plan import Source, group_sources, is_due, plan_compaction
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig

A, B = b"a", b"b"
PAIRS = [(A, b"1"), (B, b"1"), (A, b"2"), (B, b"2"), (A, b"3"), (B, b"3")]


def flushed(bench: Workbench, config: LogConfig = CONFIG) -> Log:
    """Three segments of two batches each, and an empty one."""
    log: Log = bench.open(config)
    filled(log, PAIRS)
    log.flush()
    return log


class TestDirt:
    def test_it_ends_before_the_last_segment(self, bench: Workbench) -> None:
        log = flushed(bench)
        append(log, (A, b"4"))
        dirt = dirt_of(log)
        assert (dirt.first_offset, dirt.end_offset, dirt.clean_bytes) == (0, 6, 0)
        assert dirt.dirty_bytes == sum(segment.size_bytes for segment in log.segments[:-1])
        assert dirt.ratio == 1.0

    def test_it_ends_with_a_segment_that_is_decided_as_a_whole(self, bench: Workbench) -> None:
        log = flushed(bench)
        assert [dirt_of(log, up_to_offset=offset).end_offset for offset in range(7)] == [0, 0, 2, 2, 4, 4, 6]

    def test_it_ends_where_nothing_is_flushed_yet(self, bench: Workbench) -> None:
        log = flushed(bench)
        log.recovery_point = 5
        assert dirt_of(log).end_offset == 4

    def test_it_begins_where_the_last_compaction_ended(self, bench: Workbench) -> None:
        log = flushed(bench)
        log.cleaner_offset = 4
        dirt = dirt_of(log)
        first, second, third = (segment.size_bytes for segment in log.segments[:3])
        assert (dirt.first_offset, dirt.clean_bytes, dirt.dirty_bytes) == (4, first + second, third)

    def test_it_ends_before_what_is_young(self, bench: Workbench) -> None:
        log = flushed(bench, replace(CONFIG, min_compaction_lag_ms=100))
        # The newest records of the segments are of 1001, 1003 and 1005.
        assert [dirt_of(log, now_ms).end_offset for now_ms in (1100, 1101, 1103, 1105)] == [0, 2, 4, 6]

    def test_enough_of_it_makes_a_log_due(self, bench: Workbench) -> None:
        log = flushed(bench)
        log.cleaner_offset = 4
        dirt = dirt_of(log)
        assert not is_due(dirt, CONFIG)
        assert is_due(dirt, replace(CONFIG, min_cleanable_dirty_ratio=0.3))
        log.cleaner_offset = 6
        assert not is_due(dirt_of(log), replace(CONFIG, min_cleanable_dirty_ratio=0.0))

    def test_a_little_of_it_that_waited_for_long_does_too(self, bench: Workbench) -> None:
        log = flushed(bench, replace(CONFIG, max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0))
        log.cleaner_offset = 4
        assert [is_due(dirt_of(log, now_ms), log.config) for now_ms in (1104, 1105)] == [False, True]

    def test_a_segment_rolls_in_time_for_it(self, bench: Workbench) -> None:
        log = bench.open(replace(CONFIG, max_compaction_lag_ms=100))
        append(log, (A, b"1"), timestamp=1000)
        append(log, (A, b"2"), timestamp=1100)
        append(log, (A, b"3"), timestamp=1101)
        assert [segment.base_offset for segment in log.segments] == [0, 2]


def groups(log: Log, end_offset: int = 6) -> list[list[int]]:
    plan = plan_compaction(log, dirt_of(log), 6, 10_000)
    return [[source.base_offset for source in group] for group in group_sources(plan, end_offset)]


class TestGroups:
    def test_segments_that_fit_into_one_are_merged(self, bench: Workbench) -> None:
        assert groups(flushed(bench)) == [[0, 2, 4]]

    def test_no_group_is_larger_than_a_segment_may_be(self, bench: Workbench) -> None:
        log = flushed(bench)
        log.config = replace(CONFIG, segment_bytes=2 * log.segments[0].size_bytes)
        assert groups(log) == [[0, 2], [4]]

    def test_no_group_has_more_index_entries_than_an_index_takes(self, bench: Workbench) -> None:
        log = flushed(bench)
        log.config = replace(CONFIG, index_interval_bytes=0, segment_index_bytes=60)
        assert groups(log) == [[0, 2], [4]]

    def test_segments_behind_the_end_are_left_out(self, bench: Workbench) -> None:
        assert groups(flushed(bench), end_offset=3) == [[0, 2]]

    def test_no_group_spans_more_offsets_than_an_index_can_tell(self, bench: Workbench) -> None:
        log = flushed(bench)
        plan = plan_compaction(log, dirt_of(log), 6, 10_000)
        far = plan._replace(
            sources=tuple(
                Source(source.path, number * 2**30, source.size_bytes, 0) for number, source in enumerate(plan.sources)
            ),
            dirt=plan.dirt._replace(end_offset=2**31 + 2**30),
        )
        assert [len(group) for group in group_sources(far, 2**40)] == [2, 1]

    def test_no_group_has_more_segments_than_may_be_open(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        filled(log, PAIRS * 20, per_segment=1)
        log.flush()
        plan = plan_compaction(log, dirt_of(log), 120, 10_000)
        assert [len(group) for group in group_sources(plan, 120)] == [
            COMPACTION_GROUP_SEGMENTS_MAX,
            120 - COMPACTION_GROUP_SEGMENTS_MAX,
        ]
        compact(log)
        assert len(log.segments) == 3
