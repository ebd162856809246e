"""Aborted transactions: their file, who finds them, and what survives rolls, crashes, cuts and bad files."""

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.logged import logged
from tests.unit.storage.workbench import Workbench

from tailrace.records.control import ControlType
from tailrace.records.record import read_batches, read_records
from tailrace.records.transaction_filter import TransactionFilter
from tailrace.storage.log import Log
from tailrace.storage.log_config import LogConfig
from tailrace.storage.offset_index import CorruptIndex
from tailrace.storage.retention import delete_files, delete_segments
from tailrace.storage.transaction_index import ENTRY_SIZE, AbortedTransaction, TransactionIndex

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
FIRST_FILE = "00000000000000000000.txnindex"


def two_aborted(bench: Workbench, log: Log) -> None:
    """Offsets: 0 producer 1, 1 producer 2, 2 plain, 3 aborts 1, 4 plain, 5 aborts 2."""
    bench.transact(log, 1, b"a")
    bench.transact(log, 2, b"b")
    bench.append(log, b"c")
    bench.end(log, 1)
    bench.append(log, b"d")
    bench.end(log, 2)


EXPECTED = [AbortedTransaction(1, 0, 3, 1), AbortedTransaction(2, 1, 5, 6)]


def test_the_file_is_kafka_s() -> None:
    index = TransactionIndex(0)
    index.append(AbortedTransaction(7, 3, 9, 5))
    assert index.encode() == pack(">hqqqq", 0, 7, 3, 9, 5)
    assert TransactionIndex.decode(index.encode(), 0).transactions == index.transactions


@pytest.mark.parametrize(
    ("data", "base_offset"),
    [
        (b"\0" * (ENTRY_SIZE + 1), 0),
        (b"\0" * ENTRY_SIZE, 0),
        (pack(">hqqqq", 1, 7, 3, 9, 5), 0),
        (pack(">hqqqq", 0, 7, 9, 3, 5), 0),
        (pack(">hqqqq", 0, 7, 3, 9, 5), 10),
        (pack(">hqqqq", 0, 7, 3, 9, 5) * 2, 0),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(data: bytes, base_offset: int) -> None:
    with pytest.raises(CorruptIndex):
        TransactionIndex.decode(data, base_offset)


def test_aborted_transactions_are_found_by_range(bench: Workbench) -> None:
    log = bench.open()
    two_aborted(bench, log)
    assert log.aborted_transactions(0, 6) == EXPECTED
    assert log.aborted_transactions(0, 1) == EXPECTED[:1]
    assert log.aborted_transactions(4, 6) == EXPECTED[1:]
    assert log.aborted_transactions(6, 9) == []


def test_committed_and_empty_transactions_are_not_in_it(bench: Workbench) -> None:
    log = bench.open()
    bench.transact(log, 1, b"a")
    bench.end(log, 1, COMMIT)
    bench.end(log, 2, ABORT)
    assert log.aborted_transactions(0, 9) == []
    log.close()
    assert bench.files("txnindex") == []


def test_a_transaction_over_several_segments_is_found_from_its_beginning(bench: Workbench) -> None:
    log = bench.open()
    bench.transact(log, 1, b"a")
    log.roll()
    bench.append(log, b"b")
    log.roll()
    bench.end(log, 1)
    assert log.aborted_transactions(0, 1) == [AbortedTransaction(1, 0, 2, 3)]
    log.close()
    assert bench.files("txnindex") == ["00000000000000000002.txnindex"]


@pytest.mark.parametrize("is_clean", [True, False])
def test_it_survives_a_stop_and_a_crash(bench: Workbench, is_clean: bool) -> None:
    log = bench.open()
    bench.transact(log, 3, b"open")
    log.roll()
    two_aborted(bench, log)
    if is_clean:
        log.close()
    found = log.aborted_transactions(0, 9)
    assert [transaction.producer_id for transaction in found] == [1, 2]
    reopened = bench.open(recovery_point=log.log_end_offset if is_clean else None, is_clean=is_clean)
    assert reopened.aborted_transactions(0, 9) == found
    assert reopened.last_stable_offset(7) == 0


def test_a_scan_forgets_what_the_file_said(bench: Workbench) -> None:
    log = bench.open()
    two_aborted(bench, log)
    bench.fs.write_file(f"{log.directory}/{FIRST_FILE}", pack(">hqqqq", 0, 99, 0, 4, 5))
    reopened = bench.open()
    assert reopened.aborted_transactions(0, 6) == EXPECTED
    reopened.truncate_to(3)
    reopened.close()
    assert bench.files("txnindex") == []


def test_a_bad_file_is_made_anew(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    log = bench.open()
    bench.transact(log, 3, b"long")
    log.roll()
    two_aborted(bench, log)
    bench.end(log, 3)
    expected = log.aborted_transactions(0, 9)
    log.close()
    name = "00000000000000000001.txnindex"
    bench.fs.write_file(f"{log.directory}/{name}", bench.contents(name)[:-1])
    reopened = bench.open(recovery_point=8, is_clean=True)
    assert reopened.aborted_transactions(0, 9) == expected
    assert [transaction.producer_id for transaction in expected] == [1, 2, 3]
    assert name in logged(caplog)
    # One more abort in the same segment comes after those.
    bench.transact(reopened, 4, b"x")
    bench.end(reopened, 4)
    assert reopened.aborted_transactions(8, 10) == [AbortedTransaction(4, 8, 9, 10)]


def test_truncation_takes_markers_back(bench: Workbench) -> None:
    log = bench.open()
    two_aborted(bench, log)
    log.truncate_to(5)
    assert log.aborted_transactions(0, 6) == EXPECTED[:1]
    assert log.last_stable_offset(5) == 1
    bench.end(log, 2, COMMIT)
    assert log.aborted_transactions(0, 6) == EXPECTED[:1]
    assert log.last_stable_offset(6) == 6


def test_a_deleted_segment_takes_its_file_with_it(bench: Workbench) -> None:
    log = bench.open()
    two_aborted(bench, log)
    log.roll()
    bench.append(log, b"x")
    assert bench.files("txnindex") == [FIRST_FILE]
    delete_segments(log, 1)
    delete_files(log)
    assert bench.files("txnindex") == []
    assert log.aborted_transactions(6, 9) == []


def test_the_last_stable_offset_waits_for_the_end_and_for_its_replication(bench: Workbench) -> None:
    log = bench.open()
    bench.append(log, b"a")
    bench.transact(log, 1, b"b")
    bench.transact(log, 2, b"c")
    bench.append(log, b"d")
    assert log.last_stable_offset(4) == 1
    assert log.last_stable_offset(1) == 1
    assert log.last_stable_offset(0) == 0
    bench.end(log, 1, COMMIT)
    assert log.last_stable_offset(4) == 1  # the marker at 4 is not replicated
    assert log.last_stable_offset(5) == 2
    bench.end(log, 2, ABORT)
    log.producers.acknowledge(5)
    assert log.last_stable_offset(5) == 2
    log.producers.acknowledge(6)
    assert log.last_stable_offset(6) == 6


def test_the_oldest_open_transaction_is_known_after_a_restart(bench: Workbench) -> None:
    log = bench.open()
    bench.transact(log, 9, b"a")
    bench.transact(log, 1, b"b")
    bench.transact(log, 5, b"c")
    bench.end(log, 9, COMMIT)
    bench.transact(log, 9, b"d")
    log.close()
    reopened = bench.open(recovery_point=5, is_clean=True)
    assert reopened.last_stable_offset(5) == 1
    bench.end(reopened, 1)
    assert reopened.aborted_transactions(0, 9) == [AbortedTransaction(1, 1, 5, 2)]
    assert reopened.last_stable_offset(6) == 2


steps = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["write", "abort", "commit", "plain", "roll"])), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(steps=steps, size_bytes_max=st.integers(1, 600))
def test_readers_of_committed_records_see_exactly_those(steps: list[tuple[int, str]], size_bytes_max: int) -> None:
    """Whatever is written and however it is read: what a reader keeps is what was committed below the LSO."""
    bench = Workbench()
    log = bench.open(LogConfig(index_interval_bytes=100))
    pending: dict[int, list[int]] = {}
    visible: set[int] = set()
    for producer_id, step in steps:
        if step == "write":
            pending.setdefault(producer_id, []).append(bench.transact(log, producer_id, b"v"))
        elif step == "plain":
            visible.add(bench.append(log, b"v"))
        elif step == "roll":
            log.roll()
        else:
            bench.end(log, producer_id, ABORT if step == "abort" else COMMIT)
            offsets = pending.pop(producer_id, [])
            visible |= set(offsets) if step == "commit" else set()
    end_offset = log.last_stable_offset(log.log_end_offset)
    assert end_offset == min((offsets[0] for offsets in pending.values()), default=log.log_end_offset)
    seen: list[int] = []
    offset = 0
    while offset < end_offset:
        found = log.locate(offset, size_bytes_max, end_offset, min_one_batch=True)
        data = found.read()
        hidden = TransactionFilter(log.aborted_in(offset, found))
        for position, header in read_batches(data):
            if not hidden.hides(data, position, header):
                seen += [record.offset for record in read_records(data, position)]
            offset = header.next_offset
    assert seen == sorted(offset for offset in visible if offset < end_offset)
