"""EndTxn in every state, repeated, late and wrong."""

from dataclasses import replace

import pytest
from tests.unit.machines.transaction.transaction_script import (
    BEGUN,
    FIRST_PRODUCER_ID,
    ORDERS,
    START_MS,
    TransactionScript,
)

from tailrace.machines.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, PRODUCER_EPOCH_MAX, Identity
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.transaction import EndTxnResponse

EPOCH = 5
CURRENT = Identity(FIRST_PRODUCER_ID, EPOCH)
BEFORE = Identity(FIRST_PRODUCER_ID, EPOCH - 1)
LAST_USABLE_EPOCH = PRODUCER_EPOCH_MAX - 1

FENCED = ErrorCode.PRODUCER_FENCED
INVALID = ErrorCode.INVALID_TXN_STATE
SAME = ErrorCode.NONE
RAISED = None


def idle(state: TransactionState) -> TransactionScript:
    script = TransactionScript()
    script.place(state=state, producer_epoch=EPOCH, start_ms=-1 if state is EMPTY else START_MS, client_version=2)
    return script


@pytest.mark.parametrize(
    ("state", "is_repeated", "commit", "expected"),
    [
        (EMPTY, True, False, FENCED),
        (EMPTY, False, False, RAISED),
        (EMPTY, True, True, FENCED),
        (EMPTY, False, True, INVALID),
        (COMPLETE_ABORT, True, False, SAME),
        (COMPLETE_ABORT, False, False, RAISED),
        (COMPLETE_ABORT, True, True, INVALID),
        (COMPLETE_ABORT, False, True, INVALID),
        (COMPLETE_COMMIT, True, False, INVALID),
        (COMPLETE_COMMIT, False, False, RAISED),
        (COMPLETE_COMMIT, True, True, SAME),
        (COMPLETE_COMMIT, False, True, INVALID),
    ],
)
def test_the_second_generation_ends_where_nothing_is_open(
    state: TransactionState, is_repeated: bool, commit: bool, expected: ErrorCode | None
) -> None:
    script = idle(state)
    response = script.end(BEFORE if is_repeated else CURRENT, commit=commit)
    if expected is RAISED:
        assert response == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=EPOCH + 1)
        decided = replace(
            BEGUN, state=PREPARE_ABORT, producer_epoch=EPOCH + 1, start_ms=START_MS, client_version=CLIENT_VERSION_2
        )
        assert script.take_transactions() == [decided, replace(decided, state=COMPLETE_ABORT)]
    elif expected is SAME:
        assert response == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=EPOCH)
        assert script.take_records() == []
    else:
        assert response == EndTxnResponse(error_code=expected)
        assert script.take_records() == []
    assert script.take_markers() == []


@pytest.mark.parametrize(
    ("state", "commit", "expected"),
    [
        (EMPTY, False, INVALID),
        (EMPTY, True, INVALID),
        (COMPLETE_ABORT, False, SAME),
        (COMPLETE_ABORT, True, INVALID),
        (COMPLETE_COMMIT, False, INVALID),
        (COMPLETE_COMMIT, True, SAME),
    ],
)
def test_the_first_generation_ends_where_nothing_is_open(
    state: TransactionState, commit: bool, expected: ErrorCode
) -> None:
    script = idle(state)
    assert script.end(CURRENT, commit=commit, version=4) == EndTxnResponse(error_code=expected)
    assert script.end(BEFORE, commit=commit, version=4) == EndTxnResponse(error_code=FENCED)
    assert script.take_records() == []


@pytest.mark.parametrize("commit", [False, True])
def test_who_was_fenced_is_not_given_the_identity_of_a_producer_of_the_first_generation(commit: bool) -> None:
    """That one had ended its transaction without another epoch, and two went on with the same (seed 200489)."""
    script = idle(COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    script.place(state=script.transaction.state, producer_epoch=EPOCH, client_version=CLIENT_VERSION_1)
    assert script.end(BEFORE, commit=commit) == EndTxnResponse(error_code=FENCED)
    assert script.take_records() == []


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_ABORT, COMPLETE_COMMIT])
def test_wrong_producers_change_nothing(state: TransactionState, version: int) -> None:
    script = idle(state)
    for epoch in (0, EPOCH - 2, EPOCH + 1, PRODUCER_EPOCH_MAX):
        assert script.end(Identity(FIRST_PRODUCER_ID, epoch), commit=True, version=version).error_code == FENCED
    wrong_id = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert script.end(Identity(77, EPOCH), commit=True, version=version).error_code == wrong_id
    assert script.end(CURRENT, commit=True, version=version, transactional_id="unknown").error_code == wrong_id
    nameless = script.end(CURRENT, commit=True, version=version, transactional_id="")
    assert nameless.error_code == ErrorCode.INVALID_REQUEST
    assert (script.take_records(), script.take_markers()) == ([], [])


def test_clients_that_do_not_know_fencing_hear_of_an_invalid_epoch() -> None:
    script = idle(COMPLETE_COMMIT)
    codes = [script.end(BEFORE, commit=True, version=version).error_code for version in (0, 1, 2)]
    assert codes == [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH, FENCED]


def test_kip_890_a_late_end_of_the_second_generation_does_not_hit_the_next_transaction() -> None:
    script = TransactionScript()
    first = script.opened(script.begin(), ORDERS)
    second = script.opened(script.finish(first, commit=True), ORDERS)
    script.take_records()
    for commit in (True, False):
        assert script.end(first, commit=commit) == EndTxnResponse(error_code=FENCED)
    assert script.take_records() == []
    assert script.finish(second, commit=False) == (FIRST_PRODUCER_ID, 2)


def test_a_late_end_of_the_first_generation_cannot_be_told_from_the_next_one() -> None:
    """That is why there is a second generation (KIP-890)."""
    script = TransactionScript()
    identity = script.begin()
    for _ in range(2):
        script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
        script.finish(identity, commit=True, version=4)
    script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
    assert script.end(identity, commit=True, version=4) == EndTxnResponse()
    assert script.transaction.state is PREPARE_COMMIT


def test_an_end_is_answered_again_after_a_restart() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS)
    script.finish(identity, commit=True)
    script.restart()
    assert script.end(identity, commit=True) == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=1)
    assert script.end(identity, commit=False) == EndTxnResponse(error_code=INVALID)


def test_an_exhausted_epoch_brings_another_producer_id() -> None:
    script = TransactionScript()
    open_at_the_end = script.place(
        state=ONGOING,
        producer_epoch=LAST_USABLE_EPOCH,
        start_ms=START_MS,
        partitions=frozenset({ORDERS}),
        client_version=CLIENT_VERSION_2,
    )
    identity = open_at_the_end.identity
    new = script.next_producer_id

    assert script.end(identity, commit=True) == EndTxnResponse(producer_id=new, producer_epoch=0)
    decided = replace(open_at_the_end, state=PREPARE_COMMIT, producer_epoch=PRODUCER_EPOCH_MAX, next_producer_id=new)
    assert script.take_transactions() == [decided]
    [markers] = script.take_markers()
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, PRODUCER_EPOCH_MAX)

    script.confirm(markers, [ORDERS])
    complete = replace(
        decided,
        state=COMPLETE_COMMIT,
        producer_id=new,
        producer_epoch=0,
        next_producer_id=-1,
        partitions=frozenset(),
    )
    assert script.take_transactions() == [complete]
    for _ in range(2):
        assert script.end(identity, commit=True) == EndTxnResponse(producer_id=new, producer_epoch=0)
        assert script.end(identity, commit=False) == EndTxnResponse(error_code=INVALID)
        script.restart()
    script.opened(Identity(new, 0), ORDERS)
    assert script.end(identity, commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_without_a_producer_id_at_hand_an_exhausted_producer_asks_again() -> None:
    script = TransactionScript()
    script.place(state=ONGOING, producer_epoch=LAST_USABLE_EPOCH, start_ms=START_MS, partitions=frozenset({ORDERS}))
    identity = script.transaction.identity
    script.has_producer_ids = False
    assert script.end(identity, commit=True).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert script.take_records() == []
    script.has_producer_ids = True
    assert script.end(identity, commit=True).error_code == ErrorCode.NONE


def test_the_first_generation_uses_its_last_epoch_as_long_as_it_likes() -> None:
    script = TransactionScript()
    script.place(state=ONGOING, producer_epoch=LAST_USABLE_EPOCH, start_ms=START_MS, partitions=frozenset({ORDERS}))
    identity = script.transaction.identity
    assert script.finish(identity, commit=True, version=4) == identity
    assert script.transaction.identity == identity
