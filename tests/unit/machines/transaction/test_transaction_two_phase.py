"""Two-phase commit (KIP-939): somebody else decides, and may come back for a transaction after a crash."""

from dataclasses import replace

from tests.unit.machines.transaction.transaction_script import (
    FIRST_PRODUCER_ID,
    ORDERS,
    START_MS,
    TIMEOUT_MS,
    TOTALS,
    TransactionScript,
)

from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import COMPLETE_ABORT, COMPLETE_COMMIT, ONGOING, PREPARE_COMMIT
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_1,
    PRODUCER_EPOCH_MAX,
    TWO_PHASE_TIMEOUT_MS,
    Identity,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse
from tailrace.protocol.messages.transaction import EndTxnResponse

LAST_USABLE_EPOCH = PRODUCER_EPOCH_MAX - 1


def two_phase() -> TransactionScript:
    return TransactionScript(TransactionSetting(is_two_phase_enabled=True))


def prepared() -> tuple[TransactionScript, Identity]:
    """A transaction that its producer has prepared, before it crashed."""
    script = two_phase()
    identity = script.opened(script.begin(two_phase=True), ORDERS, TOTALS)
    script.take_records()
    return script, identity


def test_what_somebody_else_decides_about_never_times_out() -> None:
    script, identity = prepared()
    assert script.transaction.timeout_ms == TWO_PHASE_TIMEOUT_MS
    script.now_ms += TWO_PHASE_TIMEOUT_MS + TIMEOUT_MS
    script.pass_time(TIMEOUT_MS)
    assert script.transaction.state is ONGOING
    assert script.finish(identity, commit=True) == (FIRST_PRODUCER_ID, 1)


def test_no_timeout_is_too_long_in_two_phases() -> None:
    assert two_phase().begin(two_phase=True, timeout_ms=TWO_PHASE_TIMEOUT_MS) == (FIRST_PRODUCER_ID, 0)


def test_a_prepared_transaction_is_kept_and_committed_by_who_comes_after() -> None:
    script, old = prepared()
    before = script.transaction
    script.pass_time(10)

    assert script.init(two_phase=True, keep_prepared=True) == InitProducerIdResponse(
        producer_id=FIRST_PRODUCER_ID,
        producer_epoch=1,
        ongoing_txn_producer_id=FIRST_PRODUCER_ID,
        ongoing_txn_producer_epoch=0,
    )
    kept = replace(before, next_producer_id=FIRST_PRODUCER_ID, next_producer_epoch=1, update_ms=START_MS + 10)
    assert script.take_transactions() == [kept]
    new = Identity(FIRST_PRODUCER_ID, 1)

    # The one who prepared it is fenced, and nothing more comes into it.
    assert script.end(old, commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert script.add(old, ("late", 0)) is ErrorCode.PRODUCER_FENCED
    assert script.verify(old, ORDERS) == [ErrorCode.PRODUCER_FENCED]
    assert script.add(new, ("late", 0)) is ErrorCode.INVALID_TXN_STATE
    assert script.take_records() == []

    assert script.end(new, commit=True) == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=2)
    decided = replace(kept, state=PREPARE_COMMIT, producer_epoch=1, next_producer_epoch=2)
    assert script.take_transactions() == [decided]
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.is_commit) == (1, True)
    script.confirm(markers, [ORDERS, TOTALS])
    assert script.take_transactions() == [
        replace(
            decided,
            state=COMPLETE_COMMIT,
            producer_epoch=2,
            next_producer_id=-1,
            next_producer_epoch=-1,
            partitions=frozenset(),
        )
    ]
    # Repeated, it gets the same answer; delayed until the next transaction, it is refused.
    assert script.end(new, commit=True) == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=2)
    script.opened(Identity(FIRST_PRODUCER_ID, 2), ORDERS)
    assert script.end(new, commit=True).error_code == ErrorCode.PRODUCER_FENCED


def test_a_kept_transaction_survives_restarts_and_further_crashes() -> None:
    script, _ = prepared()
    for epoch in (1, 2, 3):
        script.restart()
        response = script.init(two_phase=True, keep_prepared=True)
        assert (response.producer_id, response.producer_epoch) == (FIRST_PRODUCER_ID, epoch)
        assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (FIRST_PRODUCER_ID, 0)
    script.restart()
    assert script.end(Identity(FIRST_PRODUCER_ID, 2), commit=True).error_code == ErrorCode.PRODUCER_FENCED
    assert script.finish(Identity(FIRST_PRODUCER_ID, 3), commit=False) == (FIRST_PRODUCER_ID, 4)
    assert script.transaction.state is COMPLETE_ABORT


def test_who_does_not_ask_to_keep_it_aborts_it() -> None:
    script, _ = prepared()
    script.init(two_phase=True, keep_prepared=True)
    assert script.init(two_phase=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.is_commit) == (1, False)
    script.confirm(markers, markers.partitions)
    assert script.transaction.state is COMPLETE_ABORT
    assert script.begin(two_phase=True) == (FIRST_PRODUCER_ID, 3)


def test_where_nothing_is_open_keeping_it_is_a_new_producer() -> None:
    script = two_phase()
    assert script.init(two_phase=True, keep_prepared=True) == InitProducerIdResponse(producer_id=FIRST_PRODUCER_ID)
    response = script.init(two_phase=True, keep_prepared=True)
    assert response == InitProducerIdResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=1)


def test_a_short_timeout_of_who_comes_after_does_not_abort_what_was_prepared() -> None:
    script, _ = prepared()
    script.init(keep_prepared=True, timeout_ms=1_000)
    script.pass_time(10 * TIMEOUT_MS)
    assert script.transaction.state is ONGOING


def test_without_two_phases_what_is_kept_still_times_out() -> None:
    script = TransactionScript()
    script.opened(script.begin(), ORDERS)
    assert script.init(keep_prepared=True).error_code == ErrorCode.NONE
    script.pass_time(2 * TIMEOUT_MS)
    script.write_markers()
    assert script.transaction.state is COMPLETE_ABORT
    assert script.transaction.identity == (FIRST_PRODUCER_ID, 2)


def test_the_next_identity_may_have_another_producer_id() -> None:
    script = two_phase()
    script.place(
        state=ONGOING,
        producer_epoch=LAST_USABLE_EPOCH,
        timeout_ms=TWO_PHASE_TIMEOUT_MS,
        start_ms=START_MS,
        partitions=frozenset({ORDERS}),
    )
    other = script.next_producer_id
    response = script.init(two_phase=True, keep_prepared=True)
    assert (response.producer_id, response.producer_epoch) == (other, 0)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (
        FIRST_PRODUCER_ID,
        LAST_USABLE_EPOCH,
    )
    script.restart()
    assert script.end(Identity(other, 0), commit=True) == EndTxnResponse(producer_id=other, producer_epoch=1)
    [markers] = script.take_markers()
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, PRODUCER_EPOCH_MAX)
    script.confirm(markers, [ORDERS])
    assert script.transaction.identity == (other, 1)
    assert script.end(Identity(other, 0), commit=True) == EndTxnResponse(producer_id=other, producer_epoch=1)


def test_a_client_of_the_first_generation_keeps_the_epoch_it_was_given() -> None:
    """It is not told of another one when it commits."""
    script, _ = prepared()
    script.init(two_phase=True, keep_prepared=True)
    taken_over = Identity(FIRST_PRODUCER_ID, 1)
    assert script.finish(taken_over, commit=True, version=4) == taken_over
    assert script.transaction.identity == taken_over
    assert script.add(taken_over, ORDERS, client_version=CLIENT_VERSION_1) is ErrorCode.NONE
