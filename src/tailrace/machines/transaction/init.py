"""The assignment of a producer id and epoch to a transactional id (InitProducerId).

A new producer gets a higher epoch than all before it, which fences them. After an error, a producer may keep its
producer id (KIP-360): it sends its identity, and is rejected if that is not the newest. If its request was carried out
and the reply was lost, the retry gets the same reply.

An open transaction is aborted first, and the producer has to retry. If it asks to keep a prepared transaction
(KIP-939), the transaction stays open under its old identity while the producer gets the next one, with which it can
only end the transaction. Kafka has not implemented that part yet; its records have the fields for it.
"""

from collections.abc import Callable

from tailrace.machines.transaction.setting import TransactionSetting
from tailrace.machines.transaction.state import EMPTY, ONGOING, PREPARED
from tailrace.machines.transaction.transaction import (
    NO_IDENTITY,
    NO_START_MS,
    TWO_PHASE_TIMEOUT_MS,
    Identity,
    Transaction,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TakeProducerId = Callable[[], int]
"""Returns an unused producer id; raises ApiError if none is available."""


def check_request(request: InitProducerIdRequest, setting: TransactionSetting) -> None:
    """Raise ApiError for a request that is invalid in every state."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a producer id and a producer epoch must be sent together")
    if not request.transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if request.enable2_pc and not setting.is_two_phase_enabled:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is not enabled")
    if not request.enable2_pc and not 0 < request.transaction_timeout_ms <= setting.timeout_ms_max:
        raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def check_producer(transaction: Transaction, expected: Identity | None) -> None:
    """Raise ApiError if the producer has to wait or is not the newest."""
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is None:
        return
    identity = transaction.identity
    is_rotated = expected.producer_id == transaction.previous_producer_id and expected.is_exhausted
    if expected.producer_id != identity.producer_id and not is_rotated:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    # Kafka lets any epoch of the producer id abort the open transaction, and rejects it only when it retries.
    if transaction.state is ONGOING and expected != identity:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def expected_identity(request: InitProducerIdRequest) -> Identity | None:
    """Return the identity that the producer sent, if any."""
    expected = Identity(request.producer_id, request.producer_epoch)
    return None if expected == NO_IDENTITY else expected


def requested_timeout_ms(request: InitProducerIdRequest) -> int:
    return TWO_PHASE_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms


def create(now_ms: int, request: InitProducerIdRequest, take_producer_id: TakeProducerId) -> Transaction:
    """Return a new transactional id."""
    producer_id = take_producer_id()
    return Transaction(
        transactional_id=request.transactional_id or "",
        producer_id=producer_id,
        previous_producer_id=producer_id,  # Kafka creates the id without a record, and then changes it
        producer_epoch=0,
        timeout_ms=requested_timeout_ms(request),
        state=EMPTY,
        update_ms=now_ms,
    )


def renew(
    now_ms: int, transaction: Transaction, request: InitProducerIdRequest, take_producer_id: TakeProducerId
) -> Transaction:
    """Return an idle transactional id with its producer's next identity."""
    expected = expected_identity(request)
    identity, last_epoch = transaction.identity, NO_PRODUCER_EPOCH
    if expected is not None and expected.producer_epoch != identity.producer_epoch:
        last_epoch = transaction.last_producer_epoch
        if expected.producer_epoch != last_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
    else:
        if expected is not None:
            last_epoch = identity.producer_epoch
        identity = next_identity(identity, take_producer_id)
    return transaction.become(
        EMPTY,
        now_ms,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=requested_timeout_ms(request),
        start_ms=NO_START_MS,
        partitions=frozenset(),
    )


def keep(
    now_ms: int, transaction: Transaction, request: InitProducerIdRequest, take_producer_id: TakeProducerId
) -> Transaction:
    """Return an open transaction that stays open, with the identity of the producer that will end it."""
    identity = next_identity(transaction.identity, take_producer_id)
    return transaction.become(
        ONGOING,
        now_ms,
        next_producer_id=identity.producer_id,
        next_producer_epoch=identity.producer_epoch,
        # A prepared transaction must not time out because the producer that ends it has a shorter timeout.
        timeout_ms=max(transaction.timeout_ms, requested_timeout_ms(request)),
    )


def next_identity(identity: Identity, take_producer_id: TakeProducerId) -> Identity:
    """Return the identity that fences this one."""
    if identity.is_exhausted:
        return Identity(take_producer_id(), 0)
    return Identity(identity.producer_id, identity.producer_epoch + 1)
