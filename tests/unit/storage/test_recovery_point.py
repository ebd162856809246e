"""The recovery point that is written down never vouches for files that are not on the disk."""

from random import Random

import pytest
from tests.unit.storage.workbench import Workbench

from tailrace.records.control import ControlType
from tailrace.storage.log_config import LogConfig
from tailrace.storage.memory_fs import MemoryFileSystem


def test_a_roll_waits_for_no_disk_and_leaves_a_recovery_point_that_has_the_segment_scanned(bench: Workbench) -> None:
    log = bench.open(LogConfig())
    for _ in range(5):
        bench.append(log, b"x" * 30)
    log.flush()
    assert (log.recovery_point, log.checkpoint_offset) == (5, 4)
    bench.fs.calls.clear()
    log.roll()
    assert not [operation for operation, _ in bench.fs.calls if operation.startswith("sync")]
    assert (log.recovery_point, log.checkpoint_offset) == (5, 4)
    assert log.has_unflushed_segment
    flush = log.begin_flush(sealed_only=True)
    assert set(log.segments[0].index_paths()) < set(flush.paths)
    flush.run()
    log.end_flush(flush)
    assert (log.checkpoint_offset, log.has_unflushed_segment) == (5, False)


def test_a_flush_that_a_roll_overtakes_does_not_vouch_for_index_files(bench: Workbench) -> None:
    """It ended where the new segment began, and so the next start took the old one's index files as they were."""
    log = bench.open(LogConfig())
    bench.append(log, b"a", b"b")
    flush = log.begin_flush()
    log.roll()
    flush.run()
    log.end_flush(flush)
    assert (log.recovery_point, log.checkpoint_offset) == (2, 1)
    log.close()
    assert log.checkpoint_offset == 2


def test_a_power_loss_after_a_roll_forgets_no_aborted_transaction() -> None:
    """Without its index file a segment that nobody scans has no aborted transactions."""
    for seed in range(30):
        bench = Workbench(MemoryFileSystem(Random(seed)))
        log = bench.open()
        bench.transact(log, 7, b"a", b"b")
        bench.end(log, 7, ControlType.ABORT)
        log.flush()
        recovery_point = log.checkpoint_offset
        log.roll()
        bench.append(log, b"c")
        bench.fs.lose_power()
        log = bench.open(recovery_point=recovery_point)
        assert [aborted.first_offset for aborted in log.aborted_transactions(0, 3)] == [0]


@pytest.mark.parametrize("seed", range(30))
def test_what_a_start_has_cut_away_does_not_come_back_below_the_recovery_point(seed: int) -> None:
    """The cut was not synced. A roll right there, and a second loss of power, left garbage in a segment that the
    next start had no reason to look at.
    """
    bench = Workbench()
    bench.fs.random = Random(seed)
    log = bench.open()
    bench.append(log, b"flushed")
    log.close()
    log = bench.open(recovery_point=1, is_clean=True)
    bench.append(log, b"not flushed")
    bench.append(log, b"nor this")
    bench.fs.lose_power()
    log = bench.open(recovery_point=1)
    log.roll()
    kept = bench.values(log)
    bench.fs.lose_power()
    again = bench.open(recovery_point=1)
    assert bench.values(again) == kept[: again.log_end_offset]
