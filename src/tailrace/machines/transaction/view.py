"""The listing and description of transactions (KIP-664)."""

from collections.abc import Iterable
from typing import Any

import re2

from tailrace.machines.regular_expression import compile_pattern
from tailrace.machines.transaction.state import TransactionState
from tailrace.machines.transaction.transaction import TopicPartition, Transaction
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.transaction_admin import (
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransaction,
    ListTransactionsRequest,
    ListTransactionsResponseTransaction,
)

_STATES = {state.title: state for state in TransactionState}


def unknown_states(titles: Iterable[str]) -> list[str]:
    """Return the names that are not those of a state."""
    return [title for title in titles if title not in _STATES]


def list_transactions(
    now_ms: int, transactions: Iterable[Transaction], request: ListTransactionsRequest
) -> list[ListTransactionsResponseTransaction]:
    """Return the transactions that match all filters; raise ApiError if the pattern is invalid."""
    states = {_STATES.get(title) for title in request.state_filters}
    producer_ids = set(request.producer_id_filters)
    pattern = _compile(request.transactional_id_pattern) if request.transactional_id_pattern else None
    return [
        ListTransactionsResponseTransaction(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.title,
        )
        for transaction in transactions
        if (not states or transaction.state in states)
        and (not producer_ids or transaction.producer_id in producer_ids)
        and (request.duration_filter < 0 or now_ms - transaction.start_ms > request.duration_filter)
        and (pattern is None or pattern.fullmatch(transaction.transactional_id))
    ]


def _compile(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except re2.error:
        message = f"Transaction ID pattern `{pattern}` is not a valid regular expression."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def describe_transaction(
    transaction: Transaction, partitions: Iterable[TopicPartition]
) -> DescribeTransactionsResponseTransaction:
    """Describe a transactional id with the given partitions of its transaction."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return DescribeTransactionsResponseTransaction(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()
        ],
    )
