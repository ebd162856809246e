"""Which partitions are in a transaction: added by its producer, or looked up for whoever is about to write."""

from collections.abc import Iterable

from runnel.machines.transaction.state import ONGOING, PREPARED
from runnel.machines.transaction.transaction import Identity, TopicPartition, Transaction
from runnel.protocol.errors import ApiError, ErrorCode


def find_producer(transaction: Transaction | None, identity: Identity) -> Transaction:
    """The transactional id of a producer; ApiError if it is not its newest producer or has to wait."""
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state in PREPARED:
        # First of all: the producer may have the identity already that the id gets when this is over.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if identity.producer_id != transaction.identity.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if identity != transaction.identity:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.is_kept:
        raise ApiError(ErrorCode.INVALID_TXN_STATE, "a prepared transaction takes no more records")
    return transaction


def add_partitions(
    now_ms: int, transaction: Transaction, partitions: Iterable[TopicPartition], client_version: int
) -> Transaction | None:
    """The transaction with these partitions, or None if it has them already."""
    added = frozenset(partitions)
    if transaction.state is ONGOING and added <= transaction.partitions:
        return None
    return transaction.with_partitions(now_ms, added, client_version)


def verify_partitions(
    transaction: Transaction | None, identity: Identity, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the transaction of this producer (KIP-890)."""
    partitions = list(partitions)
    try:
        found = find_producer(transaction, identity)
    except ApiError as error:
        return dict.fromkeys(partitions, error.code)
    return {
        partition: ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }
