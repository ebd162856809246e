"""Idempotence: what is appended, what is a repeat, and what is refused."""

import pytest
from tests.unit.storage.workbench import Workbench

from tailrace.base.sentinel import INT32_MAX
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader, read_header
from tailrace.records.control import ControlType, EndTransactionMarker, build_end_transaction_marker
from tailrace.storage.producer_state import ProducerState


@pytest.fixture
def state() -> ProducerState:
    return ProducerState(expiration_ms=1000)


def refused(state: ProducerState, header: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        state.check(header)
    return caught.value.code


def test_batches_without_a_producer_leave_no_trace(bench: Workbench, state: ProducerState) -> None:
    data, header = bench.batch(b"v")
    assert state.check(header) is None
    state.replay(header, 0, data)
    assert state.entries == {}


def test_the_next_sequence_is_accepted_and_a_gap_is_not(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, count=10), 100, b"")
    assert state.check(bench.header(10)) is None
    assert refused(state, bench.header(11)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, bench.header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere(bench: Workbench, state: ProducerState) -> None:
    assert state.check(bench.header(1234)) is None


def test_a_repeat_of_one_of_the_last_five_gives_its_first_offset(bench: Workbench, state: ProducerState) -> None:
    for number in range(6):
        state.replay(bench.header(number * 2, count=2), 100 + number * 2, b"")
    for number in range(1, 6):
        duplicate = state.check(bench.header(number * 2, count=2))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (100 + number * 2, 101 + number * 2)
        assert duplicate.timestamp == bench.clock.time_ms
    assert refused(state, bench.header(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_is_no_repeat(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, count=4), 0, b"")
    assert refused(state, bench.header(0, count=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(state, bench.header(1, count=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_newer_epoch_begins_at_zero(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, producer_epoch=3), 0, b"")
    assert refused(state, bench.header(1, producer_epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(bench.header(0, producer_epoch=4)) is None


def test_an_older_epoch_is_fenced_even_for_a_repeat(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, producer_epoch=3), 0, b"")
    state.replay(bench.header(0, producer_epoch=4), 1, b"")
    assert refused(state, bench.header(0, producer_epoch=3)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_forgets_the_batches_of_the_old(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, producer_epoch=3), 0, b"")
    state.replay(bench.header(0, producer_epoch=4), 5, b"")
    duplicate = state.check(bench.header(0, producer_epoch=4))
    assert duplicate is not None
    assert duplicate.base_offset == 5


def test_batches_without_numbers_are_never_repeats(bench: Workbench, state: ProducerState) -> None:
    """The offsets that a transaction commits are written by a coordinator, which numbers nothing."""
    state.replay(bench.header(-1, producer_epoch=3), 0, b"")
    assert state.check(bench.header(-1, producer_epoch=3)) is None
    assert state.check(bench.header(-1, producer_epoch=4)) is None
    assert refused(state, bench.header(-1, producer_epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_at_two_to_the_31(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(INT32_MAX - 1, count=4), 0, b"")  # INT32_MAX - 1, INT32_MAX, 0, 1
    assert state.check(bench.header(2)) is None
    assert refused(state, bench.header(INT32_MAX)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(bench.header(INT32_MAX - 1, count=4)) is not None
    state.replay(bench.header(INT32_MAX), 4, b"")
    assert state.check(bench.header(0)) is None


def test_producers_do_not_mix(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0, producer_id=1), 0, b"")
    state.replay(bench.header(7, producer_id=2), 1, b"")
    assert state.check(bench.header(1, producer_id=1)) is None
    assert state.check(bench.header(8, producer_id=2)) is None


def test_a_transaction_is_open_from_its_first_batch_to_its_marker(bench: Workbench, state: ProducerState) -> None:
    _, header = bench.batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    state.replay(header, 40, b"")
    assert state.first_undecided_offset() == 40
    assert refused(state, bench.header(1)) is ErrorCode.INVALID_TXN_STATE
    marker = build_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 9), producer_id=7, producer_epoch=0, timestamp_ms=5
    )
    state.replay(read_header(marker), 41, marker)
    assert state.first_undecided_offset() is None
    assert state.entries[7].coordinator_epoch == 9
    assert state.check(bench.header(1)) is None


def test_a_marker_with_a_newer_epoch_fences_and_restarts_the_sequence(bench: Workbench, state: ProducerState) -> None:
    state.replay(bench.header(0), 0, b"")
    marker = build_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 9), producer_id=7, producer_epoch=1, timestamp_ms=5
    )
    state.replay(read_header(marker), 1, marker)
    assert refused(state, bench.header(1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(bench.header(0, producer_epoch=1)) is None


def test_silent_producers_are_forgotten_except_in_a_transaction(bench: Workbench, state: ProducerState) -> None:
    now_ms = bench.clock.time_ms
    state.replay(bench.header(0, producer_id=1), 0, b"")
    _, header = bench.batch(b"v", producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True)
    state.replay(header, 1, b"")
    assert state.expire(now_ms + 999) == 0
    assert state.expire(now_ms + 1000) == 1
    assert list(state.entries) == [2]
