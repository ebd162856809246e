"""Which errors of the client are retriable, so that a stream may go on from its checkpoint later. Pure.

An error crosses Spark's JVM as the text of a traceback, which names its class. The pipeline runner
reads that name (`names_retriable`), so the class of an error carries the answer.
"""

from runnel.client.error import (
    BootstrapError,
    BrokerUnavailable,
    BufferFull,
    DeliveryTimeout,
    ProducerFenced,
    RequestTimeout,
    TransactionFailed,
)
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.spark.error import BrokerError, RetriableBrokerError, RetriableWriteError, WriteError

# A producer's buffer stays full, and records are not delivered in time, while brokers are unreachable.
_RETRIABLE = (BootstrapError, BrokerUnavailable, BufferFull, DeliveryTimeout, ProducerFenced, RequestTimeout)
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# The broker has aborted the transaction; a new one can be begun.
_TRANSACTION_OVER = frozenset(
    {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.UNKNOWN_PRODUCER_ID}
)


def is_retriable(error: BaseException) -> bool:
    """Whether what failed with an error of the client may succeed later."""
    if isinstance(error, ApiError):
        return error.code.retriable or error.code in _FENCED
    if isinstance(error, _RETRIABLE):
        return True
    cause = error.__cause__
    if isinstance(error, TransactionFailed):
        is_over = isinstance(cause, ApiError) and cause.code in _TRANSACTION_OVER
        return cause is None or is_over or is_retriable(cause)
    return cause is not None and is_retriable(cause)


def write_error(message: str, error: BaseException) -> WriteError:
    """A `WriteError` with this message, retriable if the client's error is."""
    return RetriableWriteError(message) if is_retriable(error) else WriteError(message)


def broker_error(message: str, error: BaseException) -> BrokerError:
    """A `BrokerError` with this message, retriable if the client's error is."""
    return RetriableBrokerError(message) if is_retriable(error) else BrokerError(message)


_NAMES = frozenset(f"{kind.__module__}.{kind.__qualname__}" for kind in (RetriableBrokerError, RetriableWriteError))


def names_retriable(name: str) -> bool:
    """Whether a class, named as tracebacks name it, is that of a retriable error."""
    return name in _NAMES
