"""The end of a transaction, by its producer (EndTxn) or by the coordinator.

Clients of transaction version 1 keep their epoch from one transaction to the next, so a delayed EndTxn cannot be told
from a current one. Clients of version 2 (KIP-890, EndTxn version 5) have an epoch for each transaction: the end raises
it, and a retried EndTxn is recognised by the previous epoch, if the last end was of version 2. The replies to an EndTxn
without an open transaction:

    version 5         abort, retried    abort         commit, retried    commit
    EMPTY             fenced            epoch raised  fenced             INVALID_TXN_STATE
    COMPLETE_ABORT    same reply        epoch raised  INVALID_TXN_STATE  INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_STATE epoch raised  same reply         INVALID_TXN_STATE

    before version 5  abort               commit
    EMPTY             INVALID_TXN_STATE   INVALID_TXN_STATE
    COMPLETE_ABORT    same reply          INVALID_TXN_STATE
    COMPLETE_COMMIT   INVALID_TXN_STATE   same reply

While the markers are being written, every EndTxn gets CONCURRENT_TRANSACTIONS. Kafka replies so in most cases, and in
the others a moment earlier or later.
"""

from tailrace.machines.transaction.init import TakeProducerId, next_identity
from tailrace.machines.transaction.state import COMPLETE_COMMIT, EMPTY, ONGOING, PREPARE_ABORT, PREPARE_COMMIT, PREPARED
from tailrace.machines.transaction.transaction import (
    CLIENT_VERSION_2,
    PRODUCER_EPOCH_MAX,
    Identity,
    Transaction,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def decide_end(
    now_ms: int,
    transaction: Transaction | None,
    identity: Identity,
    *,
    is_commit: bool,
    client_version: int,
    take_producer_id: TakeProducerId,
) -> Transaction | None:
    """Return the decided transaction, or None if it has already ended so; raise ApiError if it may not end so."""
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_version < CLIENT_VERSION_2:
        is_repeated = _check_first_generation(transaction, identity, is_commit=is_commit)
    else:
        is_repeated = _check_second_generation(transaction, identity, is_commit=is_commit)
    if is_repeated:
        return None
    return prepare(
        now_ms, transaction, is_commit=is_commit, client_version=client_version, take_producer_id=take_producer_id
    )


def _check_first_generation(transaction: Transaction, identity: Identity, *, is_commit: bool) -> bool:
    """Return whether it has already ended so; raise ApiError if it may not end so."""
    if identity.producer_id != transaction.identity.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if identity != transaction.identity:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is ONGOING:
        return False
    if transaction.state is EMPTY or (transaction.state is COMPLETE_COMMIT) != is_commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return True


def _check_second_generation(transaction: Transaction, identity: Identity, *, is_commit: bool) -> bool:
    """Return whether it has already ended so; raise ApiError if it may not end so."""
    if transaction.state in PREPARED:
        # Check this first: the producer may already have the identity that the id gets after the transaction.
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_repeated = transaction.state not in (EMPTY, ONGOING) and _is_before(identity, transaction)
    if identity.producer_id != transaction.identity.producer_id and not is_repeated:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if identity != transaction.identity and not is_repeated:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is ONGOING:
        return False
    if is_repeated and (transaction.state is COMPLETE_COMMIT) == is_commit:
        return True
    if is_repeated or is_commit:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return False


def _is_before(identity: Identity, transaction: Transaction) -> bool:
    """Return whether the identity is the one before the last end raised the epoch."""
    if transaction.client_version < CLIENT_VERSION_2:
        # That end did not raise the epoch, and a producer with the previous epoch was fenced by the producer that ended
        # the transaction. Kafka gives it the identity of that producer.
        return False
    if identity.producer_id == transaction.producer_id:
        return identity.producer_epoch + 1 == transaction.producer_epoch
    return identity == (transaction.previous_producer_id, PRODUCER_EPOCH_MAX - 1) and transaction.producer_epoch == 0


def prepare(
    now_ms: int,
    transaction: Transaction,
    *,
    is_commit: bool,
    client_version: int,
    take_producer_id: TakeProducerId,
) -> Transaction:
    """Return the decided transaction, with the next identity of its producer."""
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    following = Identity(transaction.next_producer_id, transaction.next_producer_epoch)
    if client_version >= CLIENT_VERSION_2:
        # The marker has an epoch of its own, so that no record of this transaction can follow it.
        epoch = min(epoch + 1, PRODUCER_EPOCH_MAX)
        last_epoch = transaction.identity.producer_epoch
        if transaction.is_kept:
            # The producer that took over gets another epoch, too: its own EndTxn may be delayed and retried.
            following = next_identity(transaction.identity, take_producer_id)
        elif transaction.identity.is_exhausted:
            following = Identity(take_producer_id(), NO_PRODUCER_EPOCH)
    return transaction.become(
        PREPARE_COMMIT if is_commit else PREPARE_ABORT,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=following.producer_id,
        next_producer_epoch=following.producer_epoch if following.producer_id != NO_PRODUCER_ID else NO_PRODUCER_EPOCH,
        start_ms=transaction.start_ms if transaction.state is ONGOING else now_ms,
        client_version=client_version,
    )


def fence(now_ms: int, transaction: Transaction, take_producer_id: TakeProducerId) -> Transaction:
    """Return an open transaction aborted on behalf of its producer, which is fenced."""
    return prepare(
        now_ms, transaction, is_commit=False, client_version=CLIENT_VERSION_2, take_producer_id=take_producer_id
    )
