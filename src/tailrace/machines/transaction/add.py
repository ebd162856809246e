"""The partitions of a transaction: added by its producer, or verified before a write."""

from collections.abc import Iterable

from tailrace.machines.transaction.state import ONGOING, PREPARED
from tailrace.machines.transaction.transaction import Identity, TopicPartition, Transaction
from tailrace.protocol.errors import ApiError, ErrorCode


def find_producer(transaction: Transaction | None, identity: Identity) -> Transaction:
    """Return the transaction of a producer; raise ApiError if it is not the newest producer or has to wait."""
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        # Check this first: the producer may already have the identity that the id gets after the transaction.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if identity.producer_id != transaction.identity.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if identity != transaction.identity:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_kept:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "a prepared transaction accepts no more partitions")
    return transaction


def add_partitions(
    now_ms: int, transaction: Transaction, partitions: Iterable[TopicPartition], client_version: int
) -> Transaction | None:
    """Return the transaction with these partitions, or None if it has them already."""
    added = frozenset(partitions)
    if transaction.state is ONGOING and added <= transaction.partitions:
        return None
    return transaction.with_partitions(now_ms, added, client_version)


def verify_partitions(
    transaction: Transaction | None, identity: Identity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Return whether each partition is in the transaction of this producer (KIP-890)."""
    partitions = list(partitions)
    try:
        found = find_producer(transaction, identity)
    except ApiError as error:
        return dict.fromkeys(partitions, error.code)
    return {
        partition: ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }
