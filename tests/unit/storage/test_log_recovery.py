"""Opening logs: nothing is read after a clean stop, everything is checked after another."""

from random import Random

import pytest
from tests.unit.storage.workbench import Workbench

from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.memory_fs import MemoryFileSystem
from tailrace.storage.retention import delete_files

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)
LOG = "00000000000000000000.log"


def filled(bench: Workbench, count: int = 20) -> Log:
    """Two batches a round, one of them by producer 7; five rounds a leader epoch."""
    log = bench.open(SMALL)
    for number in range(count):
        data, header = bench.batch(
            b"v", timestamps=(1000 + number,), producer_id=7, producer_epoch=0, base_sequence=number
        )
        log.append(data, header, number // 5)
        bench.append(log, b"%d" % number, leader_epoch=number // 5, timestamps=(1000 + number,))
    return log


def closed(bench: Workbench, count: int = 20) -> int:
    log = filled(bench, count)
    log.close()
    return log.log_end_offset


def reads_of_logs(bench: Workbench) -> int:
    return sum(n for (operation, name), n in bench.fs.calls.items() if name.endswith(".log") and operation == "read_at")


def test_a_clean_start_reads_no_log(bench: Workbench) -> None:
    end_offset = closed(bench)
    bench.fs.kill()
    log = bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    assert reads_of_logs(bench) == 0
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 40, 40)
    assert log.producers.entries[7].last_sequence == 19
    assert log.epochs.starts == ((0, 0), (1, 10), (2, 20), (3, 30))
    assert len(bench.values(log)) == 40


def test_a_clean_start_uses_the_indexes_as_they_are(bench: Workbench) -> None:
    log = filled(bench)
    log.close()
    indexes = [(segment.offset_index.encode(), segment.time_index.encode()) for segment in log.segments]
    reopened = bench.open(SMALL, recovery_point=40, is_clean=True)
    assert [(s.offset_index.encode(), s.time_index.encode()) for s in reopened.segments] == indexes
    # One look at the first batch of each, to see that the time index does not end before it.
    assert reads_of_logs(bench) == len(indexes)


def test_a_clean_mark_without_a_believable_recovery_point_is_not_believed(bench: Workbench) -> None:
    closed(bench)
    for recovery_point in (None, 5, 36):
        assert len(bench.values(bench.open(SMALL, recovery_point=recovery_point, is_clean=True))) == 40


def test_an_empty_log_closes_and_opens(bench: Workbench) -> None:
    bench.open().close()
    log = bench.open(recovery_point=0, is_clean=True)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    bench.append(log, b"a")
    assert bench.values(log) == [(0, b"a")]


def test_appending_goes_on_after_a_clean_start(bench: Workbench) -> None:
    end_offset = closed(bench)
    log = bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    assert bench.produce(log, 20) == 40
    assert len(bench.values(log)) == 41
    assert len(bench.values(bench.open(SMALL, recovery_point=end_offset))) == 41


def test_a_killed_process_loses_nothing(bench: Workbench) -> None:
    log = filled(bench)
    before = bench.records(log)
    bench.fs.kill()
    reopened = bench.open(SMALL)
    assert bench.records(reopened) == before
    assert reopened.producers.entries[7].last_sequence == 19
    assert reopened.epochs.starts == log.epochs.starts
    assert [s.maximum for s in reopened.segments] == [s.maximum for s in log.segments]
    assert [s.offset_index.encode() for s in reopened.segments] == [s.offset_index.encode() for s in log.segments]
    assert reopened.recovery_point == 0


def test_only_segments_from_the_recovery_point_on_are_read(bench: Workbench) -> None:
    log = filled(bench)
    log.flush()
    bench.produce(log, 20)
    bench.fs.kill()
    log = bench.open(SMALL, recovery_point=40)
    names = {name for (operation, name) in bench.fs.calls if operation == "read_at"}
    assert names == {f"{log.segments[-1].base_offset:020d}.log"}
    assert log.log_end_offset == 41
    assert log.recovery_point == 40


def test_producers_come_from_the_snapshot_and_the_scan(bench: Workbench) -> None:
    log = filled(bench)
    log.flush()
    bench.produce(log, 20)
    log = bench.open(SMALL, recovery_point=40)
    assert log.producers.check(bench.header(21)) is None
    assert log.producers.check(bench.header(20)) is not None


def test_without_snapshots_producers_come_from_the_log(bench: Workbench) -> None:
    end_offset = closed(bench)
    for name in bench.files(".snapshot"):
        bench.fs.remove(f"/data/t-0/{name}")
    log = bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    assert log.producers.entries[7].last_sequence == 19


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "garbage", "zeros", "empty", "odd"])
def test_a_bad_index_never_stops_the_start_and_is_made_again(bench: Workbench, suffix: str, damage: str) -> None:
    end_offset = closed(bench)
    good = {name: bench.contents(name) for name in bench.files(suffix)}
    for name, data in good.items():
        path = f"/data/t-0/{name}"
        bench.fs.remove(path)
        replacement = {
            "garbage": bytes(reversed(data)),
            "zeros": bytes(len(data)),
            "empty": b"",
            "odd": data + b"x",
        }
        if damage in replacement:
            bench.fs.write_file(path, replacement[damage])
    log = bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    assert len(bench.values(log)) == 40
    assert log.offset_for_timestamp(1007) == (1007, 14, 1)
    assert log.max_timestamp_offset() == (1019, 38, 3)
    # An empty offset index is a good one of a segment that never needed an entry.
    if (damage, suffix) != ("empty", ".index"):
        assert {name: bench.contents(name) for name in bench.files(suffix)} == good


def test_an_index_of_another_log_is_noticed_when_used(bench: Workbench) -> None:
    log = bench.open(LogConfig(index_interval_bytes=50))
    for number in range(30):
        bench.append(log, b"x" * (number % 7))
    log.close()
    data = bytearray(bench.contents("00000000000000000000.index"))
    data[7] ^= 4  # the first position
    bench.fs.write_file("/data/t-0/00000000000000000000.index", data)
    log = bench.open(LogConfig(index_interval_bytes=50), recovery_point=30, is_clean=True)
    data[7] ^= 4
    assert len(log.read(1, 1 << 20, 30, min_one_batch=True)) < log.size_bytes
    assert bench.contents("00000000000000000000.index") == bytes(data)
    assert len(bench.values(log)) == 30


def test_a_torn_tail_is_cut_at_every_byte() -> None:
    bench = Workbench()
    log = bench.open()
    for number in range(3):
        bench.append(log, b"%d" % number)
    whole = bench.contents(LOG)
    size = len(whole) // 3
    for cut in range(len(whole) + 1):
        bench = Workbench()
        bench.fs.write_file(f"/data/t-0/{LOG}", whole[:cut])
        log = bench.open()
        assert log.log_end_offset == cut // size
        assert bench.contents(LOG) == whole[: cut // size * size]
        bench.append(log, b"next")
        assert bench.values(log)[-1] == (cut // size, b"next")


def test_a_flipped_bit_in_the_tail_cuts_there() -> None:
    bench = Workbench()
    log = bench.open()
    for number in range(3):
        bench.append(log, b"%d" % number)
    whole = bench.contents(LOG)
    size = len(whole) // 3
    survived = 0
    for bit in range(size * 8, len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        bench = Workbench()
        bench.fs.write_file(f"/data/t-0/{LOG}", bytes(flipped))
        log = bench.open()
        values = bench.values(log)
        damaged = bit // 8 // size
        if len(values) != damaged:
            # The checksum does not cover the base offset and the leader epoch. A leader epoch is
            # believed; an offset is believed where it leaves the order intact.
            survived += 1
            assert bit // 8 % size in {*range(8), *range(12, 16)}
            assert [value for _, value in values] == [b"0", b"1", b"2"][: len(values)]
            offsets = [offset for offset, _ in values]
            assert offsets == sorted(set(offsets))
        else:
            assert values == [(0, b"0"), (1, b"1"), (2, b"2")][:damaged]
    assert survived < 2 * 12 * 8


def test_segments_after_a_cut_are_deleted(bench: Workbench) -> None:
    log = filled(bench)
    second = log.segments[1]
    path = f"/data/t-0/{second.base_offset:020d}.log"
    bench.fs.open(path).truncate(second.size_bytes - 1)
    reopened = bench.open(SMALL)
    assert [s.base_offset for s in reopened.segments] == [0, second.base_offset]
    assert second.base_offset < reopened.log_end_offset < log.segments[2].base_offset
    assert bench.files(".log")[-1] == f"{second.base_offset:020d}.log"
    assert bench.files(".index")[-1] <= f"{second.base_offset:020d}.index"
    assert bench.files(".snapshot") == [f"{second.base_offset:020d}.snapshot"]
    assert reopened.latest_epoch == reopened.epochs.epoch_for(reopened.log_end_offset - 1)


def test_segments_behind_a_lost_tail_are_deleted(bench: Workbench) -> None:
    """The file system lost the last batch of a segment whole, so every batch that is left is good.

    Believing the next segment would leave a hole between the two.
    """
    log = filled(bench)
    first = log.segments[0]
    position, header = list(first.headers_from(0))[-1]
    bench.fs.open(f"/data/t-0/{LOG}").truncate(position)
    reopened = bench.open(SMALL)
    assert reopened.log_end_offset == header.base_offset
    assert len(reopened.segments) == 1


def test_the_indexes_of_a_flushed_and_then_sealed_segment_survive_a_power_loss() -> None:
    """A flush of the whole log made its recovery point the base of the next segment.

    Sealing then wrote index files that nothing synced and that no start looked at again.
    """
    for seed in range(20):
        bench = Workbench()
        bench.fs.random.seed(seed)
        log = bench.open()
        bench.append(log, b"v", timestamps=(5,))
        log.flush()
        log.roll()
        bench.fs.lose_power()
        log = bench.open(recovery_point=1)
        assert log.offset_for_timestamp(5) == (5, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_recovery_point_of_a_truncation_inside_a_batch_is_where_it_cut(bench: Workbench, seed: int) -> None:
    """The recovery point was lowered to the offset asked for, which was inside the batch that went.

    What was written in the batch's place was then taken for flushed.
    """
    bench.fs.random.seed(seed)
    points: list[int] = []
    log = bench.open()
    log.on_truncation = lambda: points.append(log.recovery_point)
    bench.append(log, b"a", b"b")
    log.flush()
    log.truncate_to(1)
    assert points == [0]
    bench.append(log, b"c")
    log.roll()
    bench.append(log, b"d")
    bench.fs.lose_power()
    reopened = bench.open(recovery_point=points[-1])
    assert bench.values(reopened) == [(0, b"c"), (1, b"d")][: reopened.log_end_offset]


def test_leftovers_are_removed(bench: Workbench) -> None:
    end_offset = closed(bench)
    for name in (
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000013.snapshot",
    ):
        bench.fs.write_file(f"/data/t-0/{name}", b"leftover")
    before = set(bench.files())
    bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    gone = before - set(bench.files())
    assert len(gone) == 6


def test_a_log_that_ends_before_its_start_begins_again(bench: Workbench) -> None:
    closed(bench)
    log = bench.open(SMALL, log_start_offset=1000, recovery_point=40)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert log.producers.entries == {}
    assert log.latest_epoch == -1
    assert bench.append(log, b"v") == 1000


def test_the_log_begins_at_its_first_segment_at_least(bench: Workbench) -> None:
    log = filled(bench)
    base_offset = log.segments[2].base_offset
    log.advance_log_start(base_offset + 1)
    log.apply_retention(0)
    delete_files(log)
    assert bench.open(SMALL).log_start_offset == base_offset
    assert bench.open(SMALL, log_start_offset=base_offset + 1).log_start_offset == base_offset + 1


def test_damage_below_the_recovery_point_does_not_stop_the_start(bench: Workbench) -> None:
    log = filled(bench)
    log.flush()
    for name in bench.files(".snapshot"):
        bench.fs.remove(f"/data/t-0/{name}")
    file = bench.fs.open(f"/data/t-0/{LOG}")
    file.write_at(b"\xff" * 30, 10)
    assert bench.open(SMALL, recovery_point=40).log_end_offset == 40


def test_a_log_that_nothing_happened_to_closes_without_touching_the_disk(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"v")
    log.close()
    log = bench.open(recovery_point=1, is_clean=True)
    before = bench.fs.call_count
    log.close()
    assert bench.fs.call_count == before
    log = bench.open(recovery_point=1, is_clean=True)
    bench.append(log, b"w")
    log.close()
    assert bench.values(bench.open(recovery_point=2, is_clean=True)) == [(0, b"v"), (1, b"w")]


def test_a_log_that_was_recovered_saves_what_it_found(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"v")
    bench.open(recovery_point=0).close()
    assert bench.files(".index") != []


def test_what_was_killed_before_its_flush_is_flushed_when_the_log_is_opened(bench: Workbench) -> None:
    """A follower that was killed between an append and its flush counted the record as on its disk afterwards.

    So a power loss took what the whole ISR was known to have; simulated seed 116 found it.
    """
    log = bench.open(LogConfig(flush_messages=1))
    bench.append(log, b"a")
    bench.fs.kill()
    assert bench.open(LogConfig(flush_messages=1)).recovery_point == 1
    bench.fs.lose_power()
    assert bench.values(bench.open(LogConfig(flush_messages=1))) == [(0, b"a")]


def test_without_flush_messages_no_opening_waits_for_the_disk(bench: Workbench) -> None:
    bench.append(bench.open(), b"a")
    bench.fs.kill()
    assert bench.open().recovery_point == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_had_to_begin_at_its_start_offset_still_does_after_a_power_loss(seed: int) -> None:
    """The checkpoint of log starts left the offset to the name of the first segment, which was not on the disk."""
    bench = Workbench(MemoryFileSystem(Random(seed)))
    log = bench.open(SMALL)
    bench.append(log, b"deleted")
    log.flush()
    bench.fs.kill()
    assert bench.open(SMALL, log_start_offset=12).log_start_offset == 12
    bench.fs.lose_power()
    assert bench.open(SMALL).log_start_offset == 12


@pytest.mark.parametrize("seed", range(10))
def test_an_aborted_transaction_is_known_after_a_power_loss_behind_a_roll(seed: int) -> None:
    """A clean stop had flushed the index. The roll after it wrote the same again, and the power loss left nothing."""
    bench = Workbench(MemoryFileSystem(Random(seed)))
    log = bench.open(SMALL)
    bench.transact(log, 7, b"aborted")
    bench.end(log, 7)
    log.close()
    end_offset = log.log_end_offset
    log = bench.open(SMALL, recovery_point=end_offset, is_clean=True)
    known = log.aborted_transactions(0, end_offset)
    log.roll()
    bench.fs.lose_power()
    assert known
    assert bench.open(SMALL, recovery_point=end_offset).aborted_transactions(0, end_offset) == known
