"""Opening logs that were compacted, or were being compacted when the power went."""

import os
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from tests.unit.storage.compacting import CONFIG, append, batches, compact, contents, dirt_of, filled
from tests.unit.storage.workbench import Workbench

from tailrace.storage import cleaned_segment
from tailrace.storage.checkpoint import CLEANER_FILE_NAME, RECOVERY_POINT_FILE_NAME, write_offsets
from tailrace.storage.compaction import Compaction
from tailrace.storage.compaction_plan import plan_compaction
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.log_dir import LogDir
from tailrace.storage.memory_fs import Crash, MemoryFileSystem
from tailrace.storage.retention import delete_segments
from tailrace.storage.segment.file import LOG_SUFFIX
from tailrace.storage.segment.segment import Segment

A, B, C, D = b"a", b"b", b"c", b"d"
PLAIN = LogConfig(retention_ms=-1)


def cut_last_batch(bench: Workbench, segment: Segment) -> None:
    """Leave a gap behind a segment, as Kafka's compaction does."""
    *_, (position, _) = segment.headers_from(0)
    segment.file.truncate(position)
    for suffix in (".index", ".timeindex"):
        bench.fs.remove(segment.path(suffix))
    bench.fs.kill()


def gapped(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (B, b"1"), (C, b"1"), (D, b"1")])
    cut_last_batch(bench, log.segments[0])


KEPT = [(0, A, b"1"), (2, C, b"1"), (3, D, b"1")]


class TestGaps:
    def test_one_below_the_cleaner_s_offset_is_no_loss(self, bench: Workbench) -> None:
        gapped(bench)
        log = bench.open(PLAIN, recovery_point=0, cleaner_offset=2)
        assert contents(log) == KEPT
        assert (log.log_end_offset, log.cleaner_offset) == (4, 2)
        found = log.offset_for_timestamp(1001)
        assert found is not None
        assert found.offset == 2
        assert len(log.read(1, 1000, 4, min_one_batch=True)) > 0

    def test_one_above_it_is_a_lost_tail(self, bench: Workbench) -> None:
        gapped(bench)
        assert contents(bench.open(CONFIG, recovery_point=0, cleaner_offset=1)) == [(0, A, b"1")]

    def test_one_in_a_log_of_which_nothing_is_known_is_no_loss_if_it_may_be_compacted(self, bench: Workbench) -> None:
        gapped(bench)
        assert contents(bench.open(CONFIG, recovery_point=None)) == KEPT

    def test_one_in_another_log_is_a_lost_tail(self, bench: Workbench) -> None:
        gapped(bench)
        assert contents(bench.open(PLAIN, recovery_point=None)) == [(0, A, b"1")]

    def test_one_behind_a_segment_with_gaps_inside_is_no_loss(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        filled(log, [(A, b"1"), (A, b"2"), (B, b"1")], per_segment=3)
        compact(log)
        filled(log, [(C, b"1")])
        cut_last_batch(bench, log.segments[0])
        assert contents(bench.open(PLAIN, recovery_point=0)) == [(1, A, b"2"), (3, C, b"1")]


@pytest.mark.parametrize("damage", ["missing", "broken", "empty"])
def test_a_lost_checkpoint_costs_no_compacted_log(bench: Workbench, damage: str) -> None:
    """Recovery took the gaps of a compacted log for lost tails when it had no recovery point to begin at."""
    gapped(bench)
    path = f"/data/{RECOVERY_POINT_FILE_NAME}"
    bench.fs.remove(path)
    if damage != "missing":
        bench.fs.write_file(path, b"" if damage == "empty" else b"0\n7\n")
    log_dir = LogDir.open(bench.fs, "/data", bench.clock, lambda _: CONFIG)
    (log,) = log_dir.logs.values()
    assert contents(log) == KEPT


def test_a_log_that_the_checkpoint_does_not_name_was_never_flushed(bench: Workbench) -> None:
    gapped(bench)
    write_offsets(bench.fs, f"/data/{RECOVERY_POINT_FILE_NAME}", {("another", 0): 5})
    (log,) = LogDir.open(bench.fs, "/data", bench.clock, lambda _: CONFIG).logs.values()
    assert contents(log) == [(0, A, b"1")]


def test_a_truncation_takes_the_cleaner_s_offset_along(bench: Workbench) -> None:
    log_dir = LogDir.open(bench.fs, "/data", bench.clock, lambda _: CONFIG)
    log = log_dir.create("u", 0, UUID(int=1), CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (B, b"1")])
    compact(log)
    log_dir.checkpoint_cleaner()
    assert bench.fs.read_file(f"/data/{CLEANER_FILE_NAME}") == b"0\n1\nu 0 3\n"
    log.truncate_to(2)
    assert log.cleaner_offset == 2
    assert bench.fs.read_file(f"/data/{CLEANER_FILE_NAME}") == b"0\n1\nu 0 2\n"


def test_an_offset_that_cannot_be_right_is_not_believed(bench: Workbench) -> None:
    log = bench.open(CONFIG, cleaner_offset=1000)
    filled(log, [(A, b"1"), (A, b"2")])
    log.flush()
    assert dirt_of(log).first_offset == 0
    log.cleaner_offset = 1
    log.advance_log_start(2)
    assert dirt_of(log).first_offset == 2


def test_what_a_failed_attempt_left_does_not_undo_a_later_swap(bench: Workbench) -> None:
    """A start that finds `.cleaned` undoes the swaps of higher offsets. With the old ones gone, nothing was left."""
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (B, b"1"), (B, b"2")])
    bench.fs.write_file(f"{log.directory}/{0:020d}.log.cleaned", b"")
    delete_segments(log, 1)
    log.flush()
    compaction = Compaction(plan_compaction(log, dirt_of(log), 4, 10_000), map_bytes=1000)
    compaction.build_map()
    (group,) = compaction.groups()
    cleaned = compaction.clean(group)
    assert cleaned is not None
    swap = log.swaps.begin(log.segments, [source.base_offset for source in group], cleaned)
    assert swap is not None
    bench.fs.hook = lambda _, operation, path: Crash() if operation == "rename" and path.endswith(".log.swap") else None
    with pytest.raises(Crash):
        swap.run()
    bench.fs.kill()
    assert contents(bench.open(CONFIG, recovery_point=0)) == [(3, B, b"2")]


class TestSwapOfSeveral:
    """What a group leaves may need more than one segment, and then all of them count or none."""

    def begin(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[Log, "list[tuple[int, bytes | None, bytes | None]]"]:
        monkeypatch.setattr(cleaned_segment, "SEGMENT_BYTES_MAX", 150)
        log = bench.open(CONFIG)
        filled(log, [(A, b"1"), (A, b"2"), (B, b"1"), (C, b"1"), (D, b"1")])
        before = contents(log)
        log.flush()
        compaction = Compaction(plan_compaction(log, dirt_of(log), 5, 10_000), map_bytes=1000)
        compaction.build_map()
        (group,) = compaction.groups()
        cleaned = compaction.clean(group)
        assert cleaned is not None
        assert [segment.base_offset for segment in cleaned] == [0, 3]
        self.swap = log.swaps.begin(log.segments, [source.base_offset for source in group], cleaned)
        return log, before

    def rename(self, bench: Workbench, log: Log, base_offset: int, old: str, new: str) -> None:
        path = os.path.join(log.directory, f"{base_offset:020d}{LOG_SUFFIX}")
        bench.fs.rename(path + old, path + new)

    def test_they_take_the_place_together(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        log, before = self.begin(bench, monkeypatch)
        assert self.swap is not None
        self.swap.run()
        log.swaps.end(self.swap)
        assert contents(log) == before[1:]
        bench.fs.lose_power()
        again = bench.open(CONFIG, recovery_point=0)
        assert contents(again) == before[1:]
        assert [segment.base_offset for segment in again.segments] == [0, 3, 5]

    def test_one_that_was_not_renamed_undoes_the_others(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, before = self.begin(bench, monkeypatch)
        self.rename(bench, log, 3, ".cleaned", ".swap")
        bench.fs.kill()
        assert contents(bench.open(CONFIG, recovery_point=0)) == before
        assert bench.files(".swap") == bench.files(".cleaned") == []

    def test_when_all_were_they_count(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        log, before = self.begin(bench, monkeypatch)
        for base_offset in (3, 0):
            for suffix in (".log", ".index", ".timeindex"):
                path = os.path.join(log.directory, f"{base_offset:020d}{suffix}")
                bench.fs.rename(f"{path}.cleaned", f"{path}.swap")
        bench.fs.kill()
        again = bench.open(CONFIG, recovery_point=0)
        assert contents(again) == before[1:]
        assert [segment.base_offset for segment in again.segments] == [0, 3, 5]
        append(again, (A, b"more"))
        assert batches(again)[-1][0].base_offset == 5


@pytest.mark.parametrize("is_crashing", [False, True])
def test_no_segment_is_lost_behind_one_that_was_compacted_and_cut(is_crashing: bool) -> None:
    """Records were appended to what was left of it. When a later segment was lost with the power, the gap
    was taken for one of compaction's because there were others before, and what followed stayed.
    """
    config = replace(CONFIG, segment_bytes=400)
    for seed in range(40):
        bench = Workbench(MemoryFileSystem(Random(seed)))
        log = bench.open(config)
        filled(log, [(A, b"1"), (B, b"1"), (A, b"2"), (B, b"2"), (A, b"3")], per_segment=5)
        compact(log)
        assert [offset for offset, *_ in contents(log)] == [3, 4]
        if is_crashing:
            bench.fs.hook = lambda _, operation, path: Crash() if operation == "create" else None
            with pytest.raises(Crash):
                log.truncate_to(4)
            bench.fs.kill()
            log = bench.open(config, recovery_point=0)
        else:
            log.truncate_to(4)
        assert log.log_end_offset == log.segments[-1].base_offset == 4
        for number in range(12):
            append(log, (A, b"v%d" % number))
        bench.fs.lose_power()
        log = bench.open(config, recovery_point=0)
        assert [offset for offset, *_ in contents(log)] == list(range(3, log.log_end_offset))
