"""Transactions as ListTransactions and DescribeTransactions show them."""

import pytest
from tests.unit.machines.transaction.transaction_script import (
    FIRST_PRODUCER_ID,
    ID,
    ORDERS,
    START_MS,
    TIMEOUT_MS,
    TOTALS,
    TransactionScript,
)

from tailrace.machines.transaction.view import unknown_states
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction_admin import (
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransaction,
    ListTransactionsRequest,
    ListTransactionsResponseTransaction,
)


def two_ids() -> TransactionScript:
    script = TransactionScript()
    script.opened(script.begin(), ORDERS, TOTALS, ("orders", 2))
    script.begin(transactional_id="idle")
    script.pass_time(1_000)
    return script


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ListTransactionsRequest(), {ID, "idle"}),
        (ListTransactionsRequest(state_filters=["Ongoing", "Nonsense"]), {ID}),
        (ListTransactionsRequest(state_filters=["Nonsense"]), set()),
        (ListTransactionsRequest(producer_id_filters=[FIRST_PRODUCER_ID + 1, 77]), {"idle"}),
        (ListTransactionsRequest(duration_filter=999, state_filters=["Ongoing"]), {ID}),
        (ListTransactionsRequest(duration_filter=1_000, state_filters=["Ongoing"]), set()),
        (ListTransactionsRequest(transactional_id_pattern="copy-.*"), {ID}),
        (ListTransactionsRequest(transactional_id_pattern="copy"), set()),
        (ListTransactionsRequest(transactional_id_pattern=""), {ID, "idle"}),
    ],
)
def test_filters(request_: ListTransactionsRequest, expected: set[str]) -> None:
    script = two_ids()
    assert {found.transactional_id for found in script.machine.list(script.now_ms, request_)} == expected


def test_a_listing_names_id_producer_and_state() -> None:
    script = two_ids()
    assert script.machine.list(script.now_ms, ListTransactionsRequest(state_filters=["Empty"])) == [
        ListTransactionsResponseTransaction(
            transactional_id="idle", producer_id=FIRST_PRODUCER_ID + 1, transaction_state="Empty"
        )
    ]
    assert unknown_states(["Ongoing", "Nonsense", "ongoing"]) == ["Nonsense", "ongoing"]


@pytest.mark.parametrize("pattern", ["(", "(.?){1000}"], ids=["invalid", "too large"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as caught:
        two_ids().machine.list(0, ListTransactionsRequest(transactional_id_pattern=pattern))
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_description_has_the_partitions_that_are_still_concerned() -> None:
    script = two_ids()
    description = DescribeTransactionsResponseTransaction(
        transactional_id=ID,
        transaction_state="Ongoing",
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_start_time_ms=START_MS,
        producer_id=FIRST_PRODUCER_ID,
        topics=[
            DescribeTransactionsResponseTopic(topic="orders", partitions=[0, 2]),
            DescribeTransactionsResponseTopic(topic="totals", partitions=[3]),
        ],
    )
    assert script.machine.describe(ID) == description

    script.end(script.transaction.identity, commit=True)
    script.write_markers([ORDERS, TOTALS])
    description.transaction_state = "PrepareCommit"
    description.producer_epoch = 1
    description.topics = [DescribeTransactionsResponseTopic(topic="orders", partitions=[2])]
    assert script.machine.describe(ID) == description


def test_who_is_not_there_is_not_found() -> None:
    script = two_ids()
    assert script.machine.describe("unknown").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert script.machine.describe("").error_code == ErrorCode.INVALID_REQUEST
