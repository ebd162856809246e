"""A broker that was stopped and started again still knows what producers may repeat.

A snapshot has only the last batch of a producer. A producer with five requests under way whose replies were lost
in a restart repeated the first of them, was refused as out of order, took another epoch and wrote all but the last
a second time.
"""

import pytest
from tests.unit.storage.workbench import Workbench

from tailrace.base.limits import RECALL_BYTES_MAX
from tailrace.protocol.errors import ApiError
from tailrace.storage import producer_replay
from tailrace.storage.log import Log
from tailrace.storage.producer_replay import recall_batches


def reopened(bench: Workbench, *sequences: int, producer_id: int = 7) -> Log:
    """A log with these batches of two records each, closed and opened again."""
    log = bench.open()
    for sequence in sequences:
        bench.produce(log, sequence, count=2, producer_id=producer_id)
        bench.produce(log, sequence, count=2, producer_id=8)
    log.close()
    return bench.open(recovery_point=log.log_end_offset, is_clean=True)


def test_the_last_five_batches_are_known_again(bench: Workbench) -> None:
    log = reopened(bench, 0, 2, 4, 6, 8, 10)
    with pytest.raises(ApiError):
        log.producers.check(bench.header(8, count=2))
    assert recall_batches(log.producers, log.segments)
    for sequence in (2, 4, 6, 8, 10):
        duplicate = log.producers.check(bench.header(sequence, count=2))
        assert duplicate is not None
        assert duplicate.base_offset == 2 * sequence
    with pytest.raises(ApiError):
        log.producers.check(bench.header(0, count=2))
    assert log.producers.check(bench.header(12)) is None


def test_a_producer_is_known_after_all_records_were_deleted(bench: Workbench) -> None:
    """A batch was consumed and deleted, and the broker was restarted before its producer got the reply.

    The broker had forgotten the producer, and appended the batch again.
    """
    log = bench.open()
    bench.produce(log, 0)
    log.advance_log_start(1)
    log.close()
    log = bench.open(log_start_offset=1, recovery_point=1, is_clean=True)
    assert log.producers.check(bench.header(0)) is not None


def test_it_is_done_once(bench: Workbench) -> None:
    log = reopened(bench, 0, 2)
    assert recall_batches(log.producers, log.segments)
    assert not recall_batches(log.producers, log.segments)


def test_there_is_nothing_to_recall_where_everything_was_seen(bench: Workbench) -> None:
    log = bench.open()
    bench.produce(log, 0)
    assert not recall_batches(log.producers, log.segments)


def test_what_was_written_since_is_kept(bench: Workbench) -> None:
    log = reopened(bench, 0, 2)
    for sequence in range(4, 12, 2):
        bench.produce(log, sequence, count=2)
    assert recall_batches(log.producers, log.segments)
    batches = log.producers.entries[7].batches
    assert [batch.base_sequence for batch in batches] == [2, 4, 6, 8, 10]
    bench.produce(log, 12)
    assert [batch.base_sequence for batch in batches] == [4, 6, 8, 10, 12]


def test_another_epoch_has_nothing_before_it(bench: Workbench) -> None:
    log = reopened(bench, 0, 2)
    bench.produce(log, 0, producer_epoch=1)
    assert recall_batches(log.producers, log.segments)
    assert [batch.base_sequence for batch in log.producers.entries[7].batches] == [0]


def test_batches_of_earlier_segments_are_found(bench: Workbench) -> None:
    log = bench.open()
    for sequence in range(4):
        bench.produce(log, sequence)
        log.roll()
    log.close()
    log = bench.open(recovery_point=log.log_end_offset, is_clean=True)
    assert recall_batches(log.producers, log.segments)
    assert [batch.base_sequence for batch in log.producers.entries[7].batches] == [0, 1, 2, 3]


def test_the_search_is_bounded(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "RECALL_BYTES_MAX", 1)
    log = bench.open()
    for sequence in range(4):
        bench.produce(log, sequence)
        log.roll()
    bench.produce(log, 4)
    log.close()
    log = bench.open(recovery_point=log.log_end_offset, is_clean=True)
    assert recall_batches(log.producers, log.segments)
    assert [batch.base_sequence for batch in log.producers.entries[7].batches] == [4]
    assert RECALL_BYTES_MAX > 1
