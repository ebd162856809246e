"""The way of a transaction through its coordinator, in both generations of clients."""

from dataclasses import replace

import pytest
from tests.now import now
from tests.unit.machines.transaction.transaction_script import (
    BEGUN,
    FIRST_PRODUCER_ID,
    ID,
    OFFSETS,
    ORDERS,
    START_MS,
    TOTALS,
    TransactionScript,
)

from tailrace.machines.transaction.decision import EndMarkers
from tailrace.machines.transaction.state import TransactionState
from tailrace.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, Identity
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdResponse
from tailrace.protocol.messages.transaction import EndTxnResponse


def test_the_second_generation_gets_an_epoch_for_each_transaction() -> None:
    script = TransactionScript()

    assert script.init() == InitProducerIdResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=0)
    assert script.take_transactions() == [BEGUN]
    identity = Identity(FIRST_PRODUCER_ID, 0)

    script.pass_time(5)
    assert script.add(identity, ORDERS, OFFSETS) is ErrorCode.NONE
    ongoing = replace(
        BEGUN,
        state=TransactionState.ONGOING,
        start_ms=START_MS + 5,
        update_ms=START_MS + 5,
        partitions=frozenset({ORDERS, OFFSETS}),
        client_version=CLIENT_VERSION_2,
    )
    assert script.take_transactions() == [ongoing]

    script.pass_time(5)
    assert script.end(identity, commit=True) == EndTxnResponse(producer_id=FIRST_PRODUCER_ID, producer_epoch=1)
    decided = replace(ongoing, state=TransactionState.PREPARE_COMMIT, producer_epoch=1, update_ms=START_MS + 10)
    assert script.take_transactions() == [decided]
    [markers] = script.take_markers()
    assert markers == EndMarkers(
        transactional_id=ID,
        producer_id=FIRST_PRODUCER_ID,
        producer_epoch=1,
        coordinator_epoch=1,
        transaction_version=2,
        is_commit=True,
        partitions=frozenset({ORDERS, OFFSETS}),
        serial=1,
    )

    script.confirm(markers, [OFFSETS])
    assert script.take_records() == []
    script.pass_time(5)
    script.confirm(markers, [ORDERS])
    state = TransactionState.COMPLETE_COMMIT
    assert script.take_transactions() == [
        replace(decided, state=state, update_ms=START_MS + 15, partitions=frozenset())
    ]


def test_the_first_generation_keeps_its_epoch() -> None:
    script = TransactionScript()
    identity = script.begin()
    assert script.add(identity, ORDERS, client_version=CLIENT_VERSION_1) is ErrorCode.NONE
    assert script.add(identity, TOTALS, client_version=CLIENT_VERSION_1) is ErrorCode.NONE
    assert script.end(identity, commit=False, version=4) == EndTxnResponse()
    [markers] = script.take_markers()
    assert (markers.producer_epoch, markers.transaction_version, markers.is_commit) == (0, 0, False)
    assert markers.partitions == {ORDERS, TOTALS}
    script.confirm(markers, [ORDERS, TOTALS])
    assert script.transaction.state is TransactionState.COMPLETE_ABORT
    assert script.transaction.identity == identity


def test_the_next_transaction_begins_where_the_last_one_ended() -> None:
    script = TransactionScript()
    second = script.finish(script.opened(script.begin(), ORDERS), commit=True)
    assert second == (FIRST_PRODUCER_ID, 1)
    script.pass_time(100)
    assert script.add(second, TOTALS) is ErrorCode.NONE
    assert script.transaction == replace(
        BEGUN,
        state=TransactionState.ONGOING,
        producer_epoch=1,
        start_ms=START_MS + 100,
        update_ms=START_MS + 100,
        partitions=frozenset({TOTALS}),
        client_version=CLIENT_VERSION_2,
    )
    assert script.finish(second, commit=False) == (FIRST_PRODUCER_ID, 2)
    assert script.transaction.state is TransactionState.COMPLETE_ABORT


def test_a_partition_that_is_in_already_is_not_written_again() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS, TOTALS)
    script.take_records()
    assert script.add(identity, TOTALS) is ErrorCode.NONE
    assert script.take_records() == []
    assert script.add(identity, OFFSETS) is ErrorCode.NONE
    assert script.transaction.partitions == {ORDERS, TOTALS, OFFSETS}
    assert script.transaction.start_ms == START_MS


def test_only_the_newest_producer_of_an_id_adds_partitions() -> None:
    script = TransactionScript()
    old = script.begin()
    new = script.begin()
    script.take_records()
    assert script.add(old, ORDERS) is ErrorCode.PRODUCER_FENCED
    assert script.add(Identity(new.producer_id, new.producer_epoch + 1), ORDERS) is ErrorCode.PRODUCER_FENCED
    assert script.add(Identity(77, 0), ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert script.add(new, ORDERS, transactional_id="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert script.add(new, ORDERS, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert script.take_records() == []


def test_a_batch_is_verified_against_the_open_transaction() -> None:
    script = TransactionScript()
    identity = script.begin()
    assert script.verify(identity, ORDERS) == [ErrorCode.TRANSACTION_ABORTABLE]
    script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
    assert script.verify(identity, ORDERS, TOTALS) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert script.verify(Identity(identity.producer_id, 9), ORDERS) == [ErrorCode.PRODUCER_FENCED]
    assert script.verify(Identity(77, 0), ORDERS) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert script.machine.verify("", *identity, [ORDERS]) == {ORDERS: ErrorCode.INVALID_REQUEST}
    assert script.machine.verify("unknown", *identity, [ORDERS]) == {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    script.end(identity, commit=True, version=4)
    assert script.verify(identity, ORDERS) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    script.write_markers()
    assert script.verify(identity, ORDERS) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_while_markers_are_written_everybody_waits() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS)
    after = script.end(identity, commit=True)
    for producer in (identity, Identity(after.producer_id, after.producer_epoch)):
        assert script.add(producer, TOTALS) is ErrorCode.CONCURRENT_TRANSACTIONS
        for commit in (True, False):
            assert script.end(producer, commit=commit).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert script.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert script.init(keep_prepared=True).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    script.write_markers()
    assert script.add(Identity(after.producer_id, after.producer_epoch), TOTALS) is ErrorCode.NONE


def test_news_of_an_earlier_end_do_not_end_the_next_one() -> None:
    """A producer of the first generation has the same epoch in both, and the same partitions."""
    script = TransactionScript()
    identity = script.begin()
    script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
    script.end(identity, commit=True, version=4)
    [first] = script.take_markers()
    script.confirm(first, [ORDERS])
    script.add(identity, ORDERS, client_version=CLIENT_VERSION_1)
    script.end(identity, commit=True, version=4)
    script.confirm(first, [ORDERS])
    assert now(script.transaction.state) is TransactionState.PREPARE_COMMIT
    script.write_markers()
    assert script.transaction.state is TransactionState.COMPLETE_COMMIT


def test_an_end_that_cannot_be_written_changes_nothing() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS)
    before = script.transaction
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ApiError):
        script.end(identity, commit=True)
    assert (script.transaction, script.take_markers()) == (before, [])
    script.append_error = None
    assert script.finish(identity, commit=True) == (FIRST_PRODUCER_ID, 1)


def test_a_completion_that_cannot_be_written_is_tried_again() -> None:
    script = TransactionScript()
    identity = script.opened(script.begin(), ORDERS)
    script.end(identity, commit=True)
    script.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    script.write_markers()
    script.pass_time(5_000)
    assert now(script.transaction.state) is TransactionState.PREPARE_COMMIT
    script.append_error = None
    script.pass_time(1_000)
    assert script.transaction.state is TransactionState.COMPLETE_COMMIT
