"""What time does: transactions that take too long, and transactional ids that nobody uses."""

from dataclasses import replace

from tests.unit.machines.transaction.transaction_script import (
    FIRST_PRODUCER_ID,
    ID,
    ORDERS,
    TIMEOUT_MS,
    TOTALS,
    TransactionScript,
)

from tailrace.config.unit import HOUR_MS, MINUTE_MS
from tailrace.machines.transaction.record import TransactionRecord
from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import COMPLETE_ABORT, ONGOING, PREPARE_ABORT
from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, PRODUCER_EPOCH_MAX, Identity
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.transaction import EndTxnResponse

SETTING = TransactionSetting()
SHORT = TransactionSetting(expiration_ms=HOUR_MS, expiry_interval_ms=10 * MINUTE_MS, is_two_phase_enabled=True)


def test_a_transaction_that_takes_too_long_is_aborted_under_another_epoch() -> None:
    script = TransactionScript()
    late = script.opened(script.begin(), ORDERS)
    opened = script.transaction
    script.take_records()

    script.pass_time(TIMEOUT_MS)
    assert script.take_records() == []
    script.pass_time(SETTING.timeout_interval_ms)
    [decided] = script.take_transactions()
    assert decided is not None
    assert decided == replace(opened, state=PREPARE_ABORT, producer_epoch=1, update_ms=decided.update_ms)
    assert script.end(late, commit=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS

    script.write_markers()
    assert script.transaction.state is COMPLETE_ABORT
    # The commit is refused, and the abort is what has happened.
    assert script.end(late, commit=True) == EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    assert script.end(late, commit=False) == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=1)
    assert script.add(late, TOTALS) is ErrorCode.PRODUCER_FENCED
    assert script.add(Identity(FIRST_PRODUCER_ID, 1), TOTALS) is ErrorCode.NONE


def test_a_client_of_the_first_generation_is_fenced_by_its_timeout() -> None:
    script = TransactionScript()
    late = script.begin()
    script.add(late, ORDERS, client_version=CLIENT_VERSION_1)
    script.pass_time(TIMEOUT_MS + SETTING.timeout_interval_ms)
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.transaction_version) == (1, CLIENT_VERSION_2)
    script.confirm(markers, [ORDERS])
    for commit in (True, False):
        assert script.end(late, commit=commit, version=4).error_code == ErrorCode.PRODUCER_FENCED
    assert script.add(late, ORDERS, client_version=CLIENT_VERSION_1) is ErrorCode.PRODUCER_FENCED
    # It may say that it is still the same one and go on.
    assert script.begin(expected=late) == (FIRST_PRODUCER_ID, 1)


def test_the_time_runs_from_the_first_partition_and_over_restarts() -> None:
    script = TransactionScript()
    identity = script.begin()
    script.pass_time(10 * TIMEOUT_MS)
    script.opened(identity, ORDERS)
    script.pass_time(TIMEOUT_MS - 5_000)
    script.opened(identity, TOTALS)
    script.restart()
    assert script.transaction.state is ONGOING
    script.pass_time(SETTING.timeout_interval_ms)
    assert script.transaction.state is PREPARE_ABORT


def test_a_timeout_of_the_last_epoch_waits_for_a_producer_id() -> None:
    script = TransactionScript()
    script.place(
        state=ONGOING, producer_epoch=PRODUCER_EPOCH_MAX - 1, start_ms=script.now_ms, partitions=frozenset({ORDERS})
    )
    script.has_producer_ids = False
    script.pass_time(2 * TIMEOUT_MS)
    assert script.transaction.state is ONGOING
    script.has_producer_ids = True
    script.pass_time(SETTING.timeout_interval_ms)
    assert script.transaction.state is PREPARE_ABORT


def test_a_timeout_comes_too_late_for_what_has_ended() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS)
    script.now_ms += TIMEOUT_MS + 1
    script.carry_out(script.machine.on_timer(script.now_ms, ("transaction-timeouts",)))
    script.finish(identity, commit=True)
    script.take_records()
    script.pass_time(0)
    assert script.take_records() == []


def test_an_idle_id_is_forgotten() -> None:
    script = TransactionScript(SHORT)
    script.begin()
    used = script.begin(transactional_id="used")
    script.pass_time(SHORT.expiration_ms - 2 * SHORT.expiry_interval_ms)
    script.add(used, ORDERS, transactional_id="used")
    script.take_records()
    script.pass_time(3 * SHORT.expiry_interval_ms)
    assert TransactionRecord(ID, None) in script.take_records()
    assert set(script.machine.transactions) == {"used"}
    script.restart()
    assert set(script.machine.transactions) == {"used"}
    assert script.begin() == (FIRST_PRODUCER_ID + 2, 0)


def test_an_id_with_something_open_is_not_forgotten() -> None:
    script = TransactionScript(SHORT)
    prepared = script.begin(two_phase=True)
    script.opened(prepared, ORDERS)
    script.begin(transactional_id="idle")
    script.pass_time(3 * SHORT.expiration_ms)
    assert {name: value.state for name, value in script.machine.transactions.items()} == {ID: ONGOING}
    script.end(prepared, commit=True)
    script.pass_time(3 * SHORT.expiration_ms)
    assert set(script.machine.transactions) == {ID}
    script.write_markers()
    script.pass_time(3 * SHORT.expiration_ms)
    assert script.machine.transactions == {}
