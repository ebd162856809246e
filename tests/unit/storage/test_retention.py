"""Old segments go by age, by size and with the log's start; the rest stays."""

from tests.unit.storage.workbench import Workbench

from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.retention import delete_files


def fill(bench: Workbench, config: LogConfig, timestamps: list[int]) -> Log:
    """One batch of 100-odd bytes a segment."""
    log = bench.open(config)
    for timestamp in timestamps:
        bench.append(log, b"x" * 50, timestamps=(timestamp,))
        log.roll()
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_go_when_their_newest_record_is_too_old(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=100), [1000, 1100, 1200])
    assert log.apply_retention(1100) == 0
    assert log.apply_retention(1101) == 1
    assert bases(log) == [1, 2, 3]
    assert log.log_start_offset == 1
    assert [offset for offset, _ in bench.values(log)] == [1, 2]


def test_an_old_segment_behind_a_newer_one_stays(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=100), [2000, 1000, 1000])
    assert log.apply_retention(1900) == 0
    assert log.apply_retention(2101) == 3
    assert bases(log) == [3]


def test_the_last_segment_goes_too_and_a_new_one_begins(bench: Workbench) -> None:
    log = bench.open(LogConfig(retention_ms=100))
    bench.append(log, b"a", b"b", timestamps=(1000, 1001))
    assert log.apply_retention(1102) == 1
    assert bases(log) == [2]
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    delete_files(log)
    assert bench.files(".log") == [f"{2:020d}.log"]
    assert bench.append(log, b"c") == 2
    assert log.apply_retention(1102) == 0


def test_an_empty_log_keeps_its_segment(bench: Workbench) -> None:
    log = bench.open(LogConfig(retention_ms=0, retention_bytes=0))
    bench.clock.time_ms += 1000
    assert log.apply_retention(bench.clock.time_ms) == 0
    assert bases(log) == [0]


def test_without_timestamps_the_age_of_the_file_counts(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=100), [-1])
    assert log.apply_retention(bench.clock.time_ms + 100) == 0
    assert log.apply_retention(bench.clock.time_ms + 101) == 1


def test_no_limit_keeps_everything(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=-1, retention_bytes=-1), [1, 2, 3])
    assert log.apply_retention(2**60) == 0


def test_size_keeps_at_least_what_is_asked_for(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=-1), [1] * 5)
    size = log.size_bytes // 5
    log.reconfigure(LogConfig(retention_ms=-1, retention_bytes=size * 3 + 1))
    assert log.apply_retention(0) == 1
    log.reconfigure(LogConfig(retention_ms=-1, retention_bytes=size * 3))
    assert log.apply_retention(0) == 1
    assert log.size_bytes == size * 3
    assert log.apply_retention(0) == 0


def test_what_lies_before_the_log_s_start_goes_whatever_the_policy(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=-1, cleanup_policy_delete=False), [1] * 5)
    log.advance_log_start(2)
    assert log.apply_retention(2**60) == 2
    assert bases(log) == [2, 3, 4, 5]
    delete_files(log)
    assert bench.files(".snapshot")[0] >= f"{2:020d}.snapshot"
    assert bench.files(".index") == [f"{base:020d}.index" for base in (2, 3, 4)]


def test_nothing_at_or_above_the_high_watermark_goes(bench: Workbench) -> None:
    log = fill(bench, LogConfig(retention_ms=100), [1] * 5)
    assert log.apply_retention(1000, up_to_offset=2) == 2
    assert log.log_start_offset == 2
    assert log.apply_retention(1000, up_to_offset=2) == 0


def test_the_epoch_of_the_start_stays_known(bench: Workbench) -> None:
    log = bench.open(LogConfig(retention_ms=-1))
    for leader_epoch in (1, 2, 3):
        bench.append(log, b"v", leader_epoch=leader_epoch)
        bench.append(log, b"v", leader_epoch=leader_epoch)
        log.roll()
    log.advance_log_start(3)
    log.apply_retention(0)
    assert log.epochs.starts == ((2, 3), (3, 4))
    reopened = bench.open(log_start_offset=3)
    assert reopened.epochs.starts == ((2, 3), (3, 4))
