"""A replica that begins after deleted records knows their producers from its leader.

It knew only the producers of the records that it read. After it was elected, it took the retry of a deleted batch for
the first batch of an unknown producer and wrote it again.
"""

from itertools import count
from random import Random

import pytest
from tests.unit.storage.workbench import Workbench

from tailrace.protocol.errors import ApiError
from tailrace.storage.error import StorageError
from tailrace.storage.log import Log
from tailrace.storage.memory_fs import Crash, MemoryFileSystem
from tailrace.storage.producer_state import NO_TRANSACTION, ProducerEntry
from tailrace.storage.retention import delete_files, delete_segments


def deleted(count: int) -> list[ProducerEntry]:
    """What a leader knows of a producer that has sent this many batches of two records, all of which are deleted."""
    bench = Workbench()
    log = bench.open()
    for number in range(count):
        bench.produce(log, 2 * number, count=2)
    log.advance_log_start(log.log_end_offset)
    return log.producers.known_before(log.log_end_offset)


def begun(bench: Workbench, count: int = 6) -> Log:
    log = bench.open()
    log.truncate_fully(2 * count, deleted(count))
    return log


def base_offset_of(bench: Workbench, log: Log, sequence: int) -> int | None:
    duplicate = log.producers.check(bench.header(sequence, count=2))
    return None if duplicate is None else duplicate.base_offset


def test_the_last_five_deleted_batches_are_known(bench: Workbench) -> None:
    log = begun(bench)
    assert [base_offset_of(bench, log, sequence) for sequence in (2, 4, 6, 8, 10)] == [2, 4, 6, 8, 10]
    with pytest.raises(ApiError):
        log.producers.check(bench.header(0, count=2))
    assert base_offset_of(bench, log, 12) is None


def test_the_last_batch_is_known_after_a_power_loss(bench: Workbench) -> None:
    begun(bench)
    bench.fs.lose_power()
    log = bench.open(log_start_offset=12)
    assert log.log_start_offset == 12
    assert base_offset_of(bench, log, 10) == 10


def test_the_last_batch_is_known_after_a_crash_behind_later_records(bench: Workbench) -> None:
    bench.append(begun(bench), b"later")
    log = bench.open(log_start_offset=12)
    assert log.log_end_offset == 13
    assert base_offset_of(bench, log, 10) == 10


def test_the_last_batch_is_known_after_a_truncation(bench: Workbench) -> None:
    log = begun(bench)
    for _ in range(2):
        bench.append(log, b"uncommitted")
    for offset in (13, 12):
        log.truncate_to(offset)
        assert log.log_end_offset == offset
        assert base_offset_of(bench, log, 10) == 10


def test_the_last_batch_is_known_after_a_crash_in_a_clean_stop() -> None:
    """The stop wrote the snapshot of a log without records again, and a crash left an empty file in its place."""
    for call in count(1):
        bench = Workbench()
        log = begun(bench)
        bench.fs.call_count = 0
        bench.fs.hook = lambda number, *_, call=call: Crash() if number == call else None
        try:
            log.close()
        except Crash:
            bench.fs.kill()
            assert base_offset_of(bench, bench.open(log_start_offset=12), 10) == 10
        else:
            return


@pytest.mark.parametrize("seed", range(20))
def test_the_last_batch_is_known_after_a_power_loss_in_a_truncation_to_the_start(seed: int) -> None:
    """The truncation removed the snapshot and named it again, and only the removal survived, as did the segment."""
    for call in count(1):
        bench = Workbench(MemoryFileSystem(Random(seed)))
        log = begun(bench)
        bench.append(log, b"uncommitted")
        bench.fs.call_count = 0
        bench.fs.hook = lambda number, *_, call=call: Crash() if number == call else None
        try:
            log.truncate_to(12)
        except Crash:
            bench.fs.lose_power()
            log = bench.open()
            if log.log_start_offset == 12:
                assert base_offset_of(bench, log, 10) == 10
        else:
            return


@pytest.mark.parametrize("seed", range(20))
def test_the_last_batch_is_known_if_a_power_loss_undoes_a_deletion_that_a_kill_ended(seed: int) -> None:
    """Recovery removed the snapshot of the deleted segment, and the power loss brought only the segment back."""
    for call in count(1):
        bench = Workbench(MemoryFileSystem(Random(seed)))
        log = begun(bench)
        bench.append(log, b"old")
        log.roll()
        bench.append(log, b"new")
        delete_segments(log, 1)
        bench.fs.call_count = 0
        bench.fs.hook = lambda number, *_, call=call: Crash() if number == call else None
        try:
            delete_files(log)
        except Crash:
            bench.fs.kill()
            bench.open()
            bench.fs.lose_power()
            log = bench.open()
            if log.log_start_offset == 12:
                assert base_offset_of(bench, log, 10) == 10
        else:
            return


def test_a_log_that_begins_elsewhere_forgets_them(bench: Workbench) -> None:
    log = begun(bench)
    log.truncate_fully(20)
    assert log.producers.entries == {}
    assert bench.files(".snapshot") == []


def test_a_log_stays_as_it_is_if_the_disk_has_no_room_for_the_producers(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    bench.fs.capacity_bytes = bench.fs.used_bytes()
    with pytest.raises(StorageError, match="No space"):
        log.truncate_fully(12, deleted(6))
    bench.fs.capacity_bytes = None
    assert bench.values(log) == [(0, b"a")]
    log.truncate_fully(12, deleted(6))
    assert base_offset_of(bench, log, 10) == 10


def test_batches_that_the_follower_reads_itself_are_left_out(bench: Workbench) -> None:
    log = bench.open()
    for sequence in range(3):
        bench.produce(log, sequence)
    bench.produce(log, 0, producer_id=8)
    (known,) = log.producers.known_before(2)
    assert (known.producer_id, known.active_ms) == (7, log.producers.entries[7].active_ms)
    assert [batch.base_sequence for batch in known.batches] == [0, 1]


def test_a_transaction_is_open_if_it_began_before(bench: Workbench) -> None:
    log = bench.open()
    bench.produce(log, 0)
    for sequence in (1, 2):
        batch = bench.batch(b"v", producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        log.append(*batch, 0)
    assert [log.producers.known_before(offset)[0].current_txn_first_offset for offset in (1, 2)] == [NO_TRANSACTION, 1]


def test_of_very_many_producers_the_last_ones_are_told(monkeypatch: pytest.MonkeyPatch, bench: Workbench) -> None:
    """The answer would hold up the leader's event loop, and could be larger than a frame may be."""
    monkeypatch.setattr("tailrace.storage.producer_state.PRODUCERS_TOLD_MAX", 3)
    log = bench.open()
    for producer_id in range(6):
        bench.produce(log, 0, producer_id=producer_id)
        log.producers.entries[producer_id].active_ms = producer_id
    known = log.producers.known_before(log.log_end_offset)
    assert [entry.producer_id for entry in known] == [5, 4, 3]
