"""Of each key the newest record stays, at its old offset."""

import pytest
from tests.unit.storage.compacting import (
    CONFIG,
    append,
    batches,
    compact,
    contents,
    dirt_of,
    end_transaction,
    filled,
    keyed_batch,
)
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.compression import Compression
from tailrace.records.control import ControlType
from tailrace.records.error import CorruptBatch
from tailrace.records.record import read_records
from tailrace.storage.compaction import Compaction, CompactionStopped, MapTooSmall
from tailrace.storage.compaction_plan import plan_compaction
from tailrace.storage.log_config import LogConfig
from tailrace.storage.retention import delete_segments

A, B, C = b"a", b"b", b"c"


def test_the_newest_record_of_each_key_stays_at_its_offset(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (B, b"1"), (A, b"2"), (C, b"1"), (B, b"2")])
    append(log, (A, b"3"))
    compact(log)
    # The last segment is not looked at, so its record of A does not count.
    assert contents(log) == [(2, A, b"2"), (3, C, b"1"), (4, B, b"2"), (5, A, b"3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert len(log.segments) == 2


def test_a_second_compaction_takes_the_clean_part_along(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (B, b"1"), (C, b"1")])
    compact(log)
    filled(log, [(A, b"2"), (B, b"2")])
    assert dirt_of(log).first_offset == log.cleaner_offset == 3
    compact(log)
    assert contents(log) == [(2, C, b"1"), (3, A, b"2"), (4, B, b"2")]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_keeps_its_offsets_its_codec_and_the_times_of_its_records(
    bench: Workbench, compression: Compression
) -> None:
    log = bench.open(CONFIG)
    append(log, (A, b"1" * 50), (B, b"1" * 50), (C, b"1" * 50), compression=compression, producer=(7, 0, 0))
    append(log, (A, b"2"), (C, b"2"))
    log.roll()
    compact(log)
    (first, records), _ = batches(log)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert first.compression is compression
    assert (first.producer_id, first.base_sequence, first.last_sequence) == (7, 0, 2)
    assert [(record.offset, record.timestamp, record.key, record.value) for record in records] == [
        (1, 1001, B, b"1" * 50)
    ]
    assert first.max_timestamp == 1001


def test_a_batch_of_which_nothing_is_gone_is_kept_byte_for_byte(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (B, b"1")])
    before = bytes(log.read(2, 1000, 3, min_one_batch=True))
    compact(log)
    assert bytes(log.read(2, 1000, 3, min_one_batch=True)) == before


def test_a_log_without_a_key_twice_is_left_as_it_is(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (B, b"1")])
    segments = list(log.segments)
    compact(log)
    assert log.segments == segments
    assert log.cleaner_offset == 2
    assert bench.files(".cleaned") == []


def test_records_without_a_key_go(bench: Workbench) -> None:
    """A topic may have been filled before it was compacted, and then nothing tells which of them is the newest."""
    log = bench.open(CONFIG)
    filled(log, [(None, b"1"), (A, b"1")])
    compact(log)
    assert contents(log) == [(1, A, b"1")]


def test_segments_are_merged_up_to_the_segment_size(bench: Workbench) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=-1, cleanup_policy_compact=True)
    log = bench.open(config)
    for number in range(12):
        append(log, (b"key %d" % (number % 3), b"value"))
    log.roll()
    assert len(log.segments) == 7
    compact(log)
    # First each pair of batches is one segment and stays one, then the small ones are merged.
    assert contents(log) == [(9, b"key 0", b"value"), (10, b"key 1", b"value"), (11, b"key 2", b"value")]
    append(log, (b"key 0", b"value"))
    log.roll()
    compact(log)
    assert contents(log) == [(10, b"key 1", b"value"), (11, b"key 2", b"value"), (12, b"key 0", b"value")]
    assert len(log.segments) < 7


def test_a_segment_ends_where_the_next_one_begins(bench: Workbench) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=-1, cleanup_policy_compact=True)
    log = bench.open(config)
    for _ in range(12):
        append(log, (A, b"value"))
    log.roll()
    compact(log)
    assert contents(log) == [(11, A, b"value")]
    ends = [list(segment.headers_from(0))[-1][1].next_offset for segment in log.segments[:-1]]
    assert ends == [segment.base_offset for segment in log.segments[1:]]


def test_a_reader_gets_on_from_any_offset(bench: Workbench) -> None:
    config = LogConfig(segment_bytes=200, retention_ms=-1, cleanup_policy_compact=True)
    log = bench.open(config)
    for number in range(20):
        append(log, (b"%d" % (number % 2), b"%d" % number))
    log.roll()
    compact(log)
    for offset in range(20):
        data = log.read(offset, 1000, log.log_end_offset, min_one_batch=True)
        assert len(data) > 0
    assert log.offset_for_timestamp(1000).offset == 18  # type: ignore[union-attr]
    assert log.max_timestamp_offset().offset == 18  # type: ignore[union-attr]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_reader_in_the_middle_reads_the_old_segment_to_its_end(bench: Workbench, is_closed: bool) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3")])
    found = log.locate(0, 10_000, 3, min_one_batch=True)
    before = bytes(found.read())
    if is_closed:
        log.segments[0].forget()  # too many files were open
    compact(log)
    assert bytes(found.read()) == before
    assert contents(log) == [(2, A, b"3")]


def test_a_reader_who_comes_during_the_swap_reads_the_new_segment(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3")])
    log.flush()
    compaction = Compaction(plan_compaction(log, dirt_of(log), 3, 10_000), map_bytes=1000)
    compaction.build_map()
    (group,) = compaction.groups()
    cleaned = compaction.clean(group)
    assert cleaned is not None
    swap = log.swaps.begin(log.segments, [source.base_offset for source in group], cleaned)
    assert swap is not None
    found = log.locate(0, 10_000, 3, min_one_batch=True)
    data = bytes(found.read())
    swap.run()
    assert bytes(found.read()) == data
    log.swaps.end(swap)
    assert bytes(found.read()) == data
    assert [record.offset for record in read_records(data)] == [2]


class TestTombstones:
    def test_they_live_for_their_time_from_the_first_compaction_on(self, bench: Workbench) -> None:
        log = bench.open(LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=500))
        filled(log, [(A, b"1"), (A, None), (B, b"1")])
        compact(log, now_ms=10_000)
        assert contents(log) == [(1, A, None), (2, B, b"1")]
        (tombstone, records), _ = batches(log)
        assert tombstone.delete_horizon_ms == 10_500
        assert [record.timestamp for record in records] == [1001]
        filled(log, [(B, b"2")])
        compact(log, now_ms=10_499)
        assert contents(log) == [(1, A, None), (3, B, b"2")]
        assert batches(log)[0][0].delete_horizon_ms == 10_500
        filled(log, [(B, b"3")])
        compact(log, now_ms=10_500)
        assert contents(log) == [(4, B, b"3")]

    def test_one_among_values_sets_the_time_for_its_batch(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        append(log, (A, b"1"), (B, None), compression=Compression.ZSTD)
        log.roll()
        compact(log, now_ms=10_000)
        ((header, records),) = batches(log)
        assert header.delete_horizon_ms == 10_000 + CONFIG.delete_retention_ms
        assert [(record.timestamp, record.key, record.value) for record in records] == [
            (1000, A, b"1"),
            (1001, B, None),
        ]
        assert header.max_timestamp == 1001

    def test_a_retention_without_end_does_not_overflow(self, bench: Workbench) -> None:
        log = bench.open(LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=2**63 - 1))
        filled(log, [(A, None), (B, b"1")])
        compact(log)
        assert batches(log)[0][0].delete_horizon_ms == 2**63 - 1
        assert [record.timestamp for _, records in batches(log) for record in records] == [1000, 1001]


class TestTransactions:
    def test_aborted_records_go_and_the_marker_stays_for_its_time(self, bench: Workbench) -> None:
        log = bench.open(LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=500))
        append(log, (A, b"kept"))
        append(log, (A, b"aborted"), producer=(7, 0, 0), is_transactional=True)
        end_transaction(log, 7, ControlType.ABORT)
        append(log, (B, b"1"))
        log.producers.entries.clear()  # the producer fell silent long ago
        log.roll()
        compact(log, now_ms=10_000)
        assert contents(log) == [(0, A, b"kept"), (3, B, b"1")]
        assert [header.base_offset for header, _ in batches(log)] == [0, 2, 3]
        # While records of it may have been seen, the index still names the transaction.
        assert [aborted.first_offset for aborted in log.aborted_transactions(0, 4)] == [1]
        for round_number, (now_ms, offsets) in enumerate([(10_001, [0, 2]), (10_500, [0, 2]), (10_501, [0])]):
            filled(log, [(B, b"again")])
            compact(log, now_ms=now_ms)
            assert [header.base_offset for header, _ in batches(log)] == [*offsets, 4 + round_number]
            assert log.aborted_transactions(0, 4) == []

    def test_a_committed_transaction_keeps_its_marker_while_it_has_records(self, bench: Workbench) -> None:
        log = bench.open(LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=0))
        append(log, (A, b"1"), producer=(7, 0, 0), is_transactional=True)
        end_transaction(log, 7, ControlType.COMMIT)
        filled(log, [(B, b"1")])
        log.producers.entries.clear()
        for _ in range(3):
            filled(log, [(B, b"1")])
            compact(log)
        assert [header.base_offset for header, _ in batches(log)] == [0, 1, 5]
        assert [header.is_control for header, _ in batches(log)] == [False, True, False]
        for _ in range(3):
            filled(log, [(A, b"2")])
            compact(log)
        assert [header.is_control for header, _ in batches(log)] == [False, False]

    def test_nothing_of_an_open_transaction_is_touched(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        filled(log, [(A, b"1"), (A, b"2"), (A, b"3")], per_segment=1)
        append(log, (A, b"open"), producer=(7, 0, 0), is_transactional=True)
        log.roll()
        filled(log, [(A, b"4")])
        compact(log)
        assert contents(log) == [(2, A, b"3"), (3, A, b"open"), (4, A, b"4")]

    def test_an_aborted_record_does_not_stand_for_its_key(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        filled(log, [(A, b"1")])
        append(log, (A, b"2"), producer=(7, 0, 0), is_transactional=True)
        end_transaction(log, 7, ControlType.ABORT)
        append(log, (A, b"3"), producer=(7, 0, 1), is_transactional=True)
        end_transaction(log, 7, ControlType.COMMIT)
        filled(log, [(B, b"1")])
        compact(log)
        assert contents(log) == [(3, A, b"3"), (5, B, b"1")]


class TestProducers:
    def test_the_last_batch_of_an_active_producer_stays_empty(self, bench: Workbench) -> None:
        log = bench.open(CONFIG)
        for sequence in range(4):
            append(log, (A, b"mine"), producer=(7, 3, sequence))
        filled(log, [(A, b"another's"), (B, b"1")])
        compact(log)
        assert contents(log) == [(4, A, b"another's"), (5, B, b"1")]
        header, records = batches(log)[0]
        assert (header.base_offset, header.base_sequence, header.producer_epoch) == (3, 3, 3)
        assert records == []
        for name in bench.files(".snapshot"):
            bench.fs.remove(f"{log.directory}/{name}")
        bench.fs.kill()
        again = bench.open(CONFIG, recovery_point=0)
        assert again.producers.entries[7].last_sequence == 3
        _, header = keyed_batch((A, b"mine"), producer=(7, 3, 3))
        assert again.producers.check(header) is not None

    def test_a_marker_that_alone_knows_the_epoch_stays(self, bench: Workbench) -> None:
        log = bench.open(LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=0))
        end_transaction(log, 7, ControlType.ABORT)
        for _ in range(3):
            filled(log, [(B, b"1")])
            compact(log)
        assert batches(log)[0][0].is_control
        assert contents(log) == [(3, B, b"1")]

    def test_an_emptied_marker_still_fences_after_the_snapshots_are_lost(self, bench: Workbench) -> None:
        """Kafka keeps the empty batch for that, and then reads nothing from it."""
        config = LogConfig(retention_ms=-1, cleanup_policy_compact=True, delete_retention_ms=0)
        log = bench.open(config)
        append(log, (A, b"1"), producer=(7, 0, 0), is_transactional=True)
        end_transaction(log, 7, ControlType.ABORT, producer_epoch=1)
        for _ in range(4):
            filled(log, [(B, b"1")])
            compact(log)
        header, records = batches(log)[0]
        assert (header.is_control, header.producer_epoch, records) == (True, 1, [])
        for name in bench.files(".snapshot"):
            bench.fs.remove(f"{log.directory}/{name}")
        bench.fs.kill()
        again = bench.open(config, recovery_point=0)
        with pytest.raises(ApiError) as caught:
            again.producers.check(keyed_batch((A, b"2"), producer=(7, 0, 1), is_transactional=True)[1])
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert again.producers.first_undecided_offset() is None


def test_a_full_map_ends_the_compaction_and_the_next_one_goes_on(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    pairs = [(b"key %d" % (number % 10), b"%d" % number) for number in range(40)]
    filled(log, pairs, per_segment=7)
    log.flush()
    ends = []
    while dirt_of(log).dirty_bytes:
        ends.append(compact(log, map_bytes=24 * 5).end_offset)
    assert ends[0] == 4
    assert ends == sorted(set(ends))
    assert ends[-1] == 40
    assert contents(log) == [(number, *pairs[number]) for number in range(30, 40)]


def test_a_map_too_small_for_one_batch_is_told(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    append(log, *[(b"%d" % number, b"v") for number in range(20)])
    log.roll()
    with pytest.raises(MapTooSmall, match=r"more than the 4 keys that log\.cleaner\.dedupe\.buffer\.size allows"):
        compact(log, map_bytes=24 * 5)


def test_a_broken_batch_stops_it_and_changes_nothing(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3")])
    names = bench.files()
    log.segments[0].file.write_at(b"\xff", 65)
    with pytest.raises(CorruptBatch, match="wrong checksum at position 0"):
        compact(log)
    assert bench.files() == names


def test_it_can_be_stopped(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3")])
    names = bench.files()

    def stop_at(size_bytes: int) -> float:
        raise CompactionStopped

    with pytest.raises(CompactionStopped):
        compact(log, rest_for=stop_at)
    assert bench.files() == names
    assert contents(log) == [(0, A, b"1"), (1, A, b"2"), (2, A, b"3")]


def test_a_log_that_changed_meanwhile_takes_nothing(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3")])
    old = log.segments[:2]
    delete_segments(log, 1)
    assert log.swaps.begin(log.segments, [0, 2], old) is None


def test_a_truncation_finishes_the_swap_first(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    filled(log, [(A, b"1"), (A, b"2"), (A, b"3"), (B, b"1")])
    log.flush()
    compaction = Compaction(plan_compaction(log, dirt_of(log), 4, 10_000), map_bytes=1000)
    compaction.build_map()
    (group,) = compaction.groups()
    cleaned = compaction.clean(group)
    assert cleaned is not None
    assert log.swaps.begin(log.segments, [source.base_offset for source in group], cleaned) is not None
    assert contents(log) == [(2, A, b"3"), (3, B, b"1")]
    assert log.apply_retention(10_000) == 0
    log.truncate_to(3)
    assert contents(log) == [(2, A, b"3")]
    assert bench.files(".cleaned") == bench.files(".swap") == []
