"""InitProducerId with a transactional id: who is the producer, and with which epoch."""

from dataclasses import replace

import pytest
from tests.unit.machines.transaction.transaction_script import (
    BEGUN,
    FIRST_PRODUCER_ID,
    ID,
    ORDERS,
    START_MS,
    TIMEOUT_MS,
    TransactionScript,
)

from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY, ONGOING, PREPARE_ABORT
from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, PRODUCER_EPOCH_MAX, Identity
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse

LAST_USABLE_EPOCH = PRODUCER_EPOCH_MAX - 1


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def test_each_new_producer_gets_the_next_epoch() -> None:
    script = TransactionScript()
    assert [script.begin() for _ in range(3)] == [(FIRST_PRODUCER_ID, epoch) for epoch in range(3)]
    assert script.begin(transactional_id="another") == (FIRST_PRODUCER_ID + 1, 0)


def test_the_newest_timeout_counts() -> None:
    script = TransactionScript()
    script.begin()
    script.begin(timeout_ms=5_000)
    assert script.transaction.timeout_ms == 5_000


def test_what_can_never_be_is_refused() -> None:
    script = TransactionScript()
    assert script.init(transactional_id="") == refused(ErrorCode.INVALID_REQUEST)
    for timeout_ms in (-1, 0, TransactionSetting().timeout_ms_max + 1):
        assert script.init(timeout_ms=timeout_ms) == refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    for identity in (Identity(7, -1), Identity(-1, 7)):
        assert script.init(identity) == refused(ErrorCode.INVALID_REQUEST)
    assert script.init(two_phase=True) == refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    script.has_producer_ids = False
    assert script.init() == refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (script.take_records(), script.machine.transactions) == ([], {})


def test_a_new_producer_aborts_what_the_old_one_left_open() -> None:
    script = TransactionScript()
    old = script.opened(script.begin(), ORDERS)
    opened = script.transaction
    script.take_records()

    assert script.init() == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert script.take_transactions() == [replace(opened, state=PREPARE_ABORT, producer_epoch=1)]
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.is_commit, markers.partitions) == (1, False, frozenset({ORDERS}))
    assert script.init() == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    script.confirm(markers, [ORDERS])
    assert script.begin() == (FIRST_PRODUCER_ID, 2)
    assert script.add(old, ORDERS) is ErrorCode.PRODUCER_FENCED
    assert script.end(old, commit=True).error_code == ErrorCode.PRODUCER_FENCED


def test_the_abort_in_the_place_of_an_old_client_has_an_epoch_of_its_own() -> None:
    script = TransactionScript()
    script.add(script.begin(), ORDERS, client_version=CLIENT_VERSION_1)
    script.init(version=4)
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.transaction_version) == (1, CLIENT_VERSION_2)


def test_a_producer_goes_on_under_its_own_name() -> None:
    """KIP-360: after an error, without being taken for another producer."""
    script = TransactionScript()
    first = script.begin()
    second = script.begin(expected=first)
    assert second == (FIRST_PRODUCER_ID, 1)
    # The answer was lost: the same one again.
    assert script.begin(expected=first) == second
    assert script.begin(expected=second) == (FIRST_PRODUCER_ID, 2)
    assert script.init(first) == refused(ErrorCode.PRODUCER_FENCED)
    assert script.init(Identity(77, 2)) == refused(ErrorCode.PRODUCER_FENCED)


def test_asking_again_late_is_still_asking_again() -> None:
    """A delayed copy of a request that was answered; the producer has run a transaction since."""
    script = TransactionScript()
    first = script.begin()
    second = script.begin(expected=first)
    script.add(second, ORDERS, client_version=CLIENT_VERSION_1)
    script.finish(second, commit=True, version=4)
    assert script.begin(expected=first) == second


def test_a_producer_that_was_replaced_does_not_come_back() -> None:
    script = TransactionScript()
    old = script.begin()
    script.begin()
    assert script.init(old, version=4) == refused(ErrorCode.PRODUCER_FENCED)
    assert script.init(old, version=3) == refused(ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_producer_whose_id_is_unknown_begins_anew() -> None:
    """Its id has expired."""
    script = TransactionScript()
    assert script.begin(expected=Identity(77, 9)) == (FIRST_PRODUCER_ID, 0)


def test_a_stale_producer_does_not_abort_an_open_transaction() -> None:
    """Kafka aborts first and refuses later."""
    script = TransactionScript()
    script.begin()
    script.begin()
    opened = script.opened(script.begin(), ORDERS)
    script.take_records()
    for epoch in (0, 1, 3):
        assert script.init(Identity(FIRST_PRODUCER_ID, epoch)) == refused(ErrorCode.PRODUCER_FENCED)
    assert script.take_records() == []
    assert script.init(opened) == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    script.write_markers()
    # The abort has raised the epoch already; asking again gets just that.
    assert script.begin(expected=opened) == (FIRST_PRODUCER_ID, 3)


def test_asking_again_after_the_abort_survives_a_restart() -> None:
    """Kafka forgets which epoch was before the last and fences the producer."""
    script = TransactionScript()
    opened = script.opened(script.begin(), ORDERS)
    script.init(opened)
    script.restart()
    script.write_markers()
    script.restart()
    assert script.begin(expected=opened) == (FIRST_PRODUCER_ID, 1)


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_an_exhausted_epoch_brings_another_producer_id(state: object) -> None:
    script = TransactionScript()
    script.place(state=state, producer_epoch=LAST_USABLE_EPOCH)
    new = script.next_producer_id
    script.pass_time(10)
    assert script.begin() == (new, 0)
    assert script.take_transactions() == [replace(BEGUN, producer_id=new, producer_epoch=0, update_ms=START_MS + 10)]


def test_the_same_producer_gets_the_other_id_twice() -> None:
    script = TransactionScript()
    exhausted = script.place(producer_epoch=LAST_USABLE_EPOCH).identity
    new = script.next_producer_id
    assert script.begin(expected=exhausted) == (new, 0)
    assert script.begin(expected=exhausted) == (new, 0)
    assert script.init(Identity(FIRST_PRODUCER_ID, 7)) == refused(ErrorCode.PRODUCER_FENCED)


def test_fencing_the_last_epoch_brings_another_producer_id() -> None:
    script = TransactionScript()
    script.place(state=ONGOING, producer_epoch=LAST_USABLE_EPOCH, start_ms=START_MS, partitions=frozenset({ORDERS}))
    new = script.next_producer_id
    assert script.init() == refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert script.transaction.producer_epoch == PRODUCER_EPOCH_MAX
    script.write_markers()
    assert script.begin() == (new, 1)
    assert script.transaction.transactional_id == ID
    assert script.transaction.timeout_ms == TIMEOUT_MS
