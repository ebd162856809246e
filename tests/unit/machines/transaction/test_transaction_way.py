"""The way of a transaction through its coordinator, in both generations of clients."""

from dataclasses import replace

from tests.unit.machines.transaction.transaction_script import (
    FIRST_PRODUCER_ID,
    ID,
    OFFSETS,
    ORDERS,
    START_MS,
    TIMEOUT_MS,
    TOTALS,
    TransactionScript,
)

from runnel.machines.transaction.decision import EndMarkers
from runnel.machines.transaction.state import TransactionState
from runnel.machines.transaction.transaction import CLIENT_VERSION_1, CLIENT_VERSION_2, Identity, Transaction
from runnel.protocol.errors import ErrorCode
from runnel.protocol.messages.producer import InitProducerIdResponse
from runnel.protocol.messages.transaction import EndTxnResponse

BEGUN = Transaction(
    transactional_id=ID,
    producer_id=FIRST_PRODUCER_ID,
    previous_producer_id=FIRST_PRODUCER_ID,
    producer_epoch=0,
    timeout_ms=TIMEOUT_MS,
    state=TransactionState.EMPTY,
    update_ms=START_MS,
)


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
