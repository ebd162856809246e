"""What a producer may do in which phase, and what errors make of it."""

from itertools import product

import pytest

from tailrace.client.error import TransactionStateError
from tailrace.client.produce.sequence import Identity
from tailrace.client.topic_partition import TopicPartition
from tailrace.client.transaction.state import (
    STEPS,
    Phase,
    Step,
    TransactionState,
    Verdict,
    judge,
    judge_batch,
)
from tailrace.protocol.errors import ErrorCode

PLACE = TopicPartition("t", 0)


def at(phase: Phase, *, is_v2: bool = True) -> TransactionState:
    state = TransactionState()
    state.phase, state.is_v2 = phase, is_v2
    return state


ALLOWED = """
            init          begin  send  send_offsets  prepare    commit      abort
NEW         INITIALIZING  -      -     -             -          -           -
INITIALIZING INITIALIZING -      -     -             -          -           -
READY       -             OPEN   -     -             -          -           -
OPEN        -             -      OPEN  OPEN          PREPARING  COMMITTING  ABORTING
PREPARING   -             -      -     -             PREPARING  -           ABORTING
PREPARED    -             -      -     -             -          COMMITTING  ABORTING
COMMITTING  -             -      -     -             -          COMMITTING  -
ABORTING    -             -      -     -             -          -           ABORTING
FAILED      -             -      -     -             -          -           ABORTING
BROKEN      -             -      -     -             -          -           -
"""
CALLS = (Step.INIT, Step.BEGIN, Step.SEND, Step.SEND_OFFSETS, Step.PREPARE, Step.COMMIT, Step.ABORT)


def test_every_call_in_every_phase() -> None:
    rows = {Phase[name]: cells for name, *cells in (line.split() for line in ALLOWED.strip().splitlines()[1:])}
    assert set(rows) == set(Phase)
    for phase, (index, call) in product(Phase, enumerate(CALLS)):
        expected = rows[phase][index]
        state = at(phase)
        if expected == "-":
            with pytest.raises(TransactionStateError, match=call.value):
                state.take(call)
            assert state.phase is phase
        else:
            state.take(call)
            assert state.phase is Phase[expected], (phase, call)


def test_everything_may_break_and_stays_so() -> None:
    for phase in Phase:
        state = at(phase)
        state.take(Step.BREAK)
        assert state.phase is Phase.BROKEN
    assert STEPS[Phase.BROKEN].keys() == {Step.FAIL}


def test_the_first_reason_is_what_is_told() -> None:
    state = at(Phase.OPEN)
    first = ValueError("first")
    state.fail(first)
    state.fail(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        state.take(Step.COMMIT)
    state.take(Step.ABORT)
    state.fail(ValueError("third"))
    assert state.phase is Phase.ABORTING
    state.end(Identity(7, 3))
    assert (state.phase, state.error, state.identity, state.needs_epoch) == (Phase.READY, None, Identity(7, 3), False)


def test_numbers_with_gaps_need_an_epoch_of_their_own() -> None:
    state = at(Phase.OPEN, is_v2=False)
    state.fail(ValueError("lost"))
    state.take(Step.ABORT)
    state.end(None)
    assert state.needs_epoch


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.OPEN, Phase.COMMITTING)])
def test_nothing_leaves_outside_a_transaction(phase: Phase) -> None:
    assert at(phase).admits(PLACE) is (phase is Phase.PREPARING)


def test_the_second_generation_adds_a_partition_by_writing_to_it() -> None:
    state = at(Phase.OPEN)
    assert state.admits(PLACE)
    assert state.is_started
    assert not state.wanted


def test_the_first_generation_adds_a_partition_before() -> None:
    state = at(Phase.OPEN, is_v2=False)
    assert not state.admits(PLACE)
    assert state.wanted == {PLACE}
    assert not state.is_started
    state.confirm([PLACE])
    assert state.admits(PLACE)
    assert not state.wanted
    assert state.is_confirmed


@pytest.mark.parametrize(
    ("code", "verdict", "of_abort", "of_batch"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, Verdict.AGAIN, Verdict.AGAIN, Verdict.ABORT),
        (ErrorCode.NOT_COORDINATOR, Verdict.AGAIN, Verdict.AGAIN, Verdict.ABORT),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.AGAIN, Verdict.AGAIN, Verdict.ABORT),
        (ErrorCode.PRODUCER_FENCED, Verdict.FENCED, Verdict.FENCED, Verdict.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.FENCED, Verdict.FENCED, Verdict.ABORT),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Verdict.FENCED, Verdict.FENCED, Verdict.FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, Verdict.ABORT, Verdict.BREAK, Verdict.ABORT),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.ABORT, Verdict.BREAK, Verdict.ABORT),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.ABORT, Verdict.BREAK, Verdict.ABORT),
        (ErrorCode.INVALID_TXN_STATE, Verdict.ABORT, Verdict.BREAK, Verdict.ABORT),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Verdict.BREAK, Verdict.BREAK, Verdict.BREAK),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.BREAK, Verdict.BREAK, Verdict.ABORT),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.BREAK, Verdict.BREAK, Verdict.ABORT),
    ],
)
def test_what_errors_mean(code: ErrorCode, verdict: Verdict, of_abort: Verdict, of_batch: Verdict) -> None:
    assert judge(code) is verdict
    assert judge(code, is_abort=True) is of_abort
    assert judge_batch(code) is of_batch
