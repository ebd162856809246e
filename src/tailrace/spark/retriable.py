"""The retriable errors of the client, after which a stream can continue from its checkpoint. Pure.

An error crosses Spark's JVM as the text of a traceback. The pipeline runner reads the class name from it
(`names_retriable`), so the class determines whether the error is retriable.
"""

from tailrace.client.error import (
    BootstrapError,
    BrokerUnavailable,
    BufferFull,
    DeliveryTimeout,
    ProducerFenced,
    RequestTimeout,
    TransactionFailed,
)
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.spark.error import (
    BrokerError,
    RetriableBrokerError,
    RetriableConnectorError,
    RetriableRegistryError,
    RetriableWriteError,
    WriteError,
)

# While brokers are unreachable, a producer's buffer stays full and deliveries time out.
_RETRIABLE = (BootstrapError, BrokerUnavailable, BufferFull, DeliveryTimeout, ProducerFenced, RequestTimeout)
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
# The broker has aborted the transaction; a new one can start.
_TRANSACTION_OVER = frozenset(
    {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.UNKNOWN_PRODUCER_ID}
)


def is_retriable(error: BaseException) -> bool:
    """Return whether an operation that failed with this client error may succeed later."""
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
    """Return a `WriteError` with this message, retriable if the client's error is."""
    return RetriableWriteError(message) if is_retriable(error) else WriteError(message)


def broker_error(message: str, error: BaseException) -> BrokerError:
    """Return a `BrokerError` with this message, retriable if the client's error is."""
    return RetriableBrokerError(message) if is_retriable(error) else BrokerError(message)


_NAMES = frozenset(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (RetriableBrokerError, RetriableConnectorError, RetriableRegistryError, RetriableWriteError)
)


def names_retriable(name: str) -> bool:
    """Return whether a class name from a traceback is that of a retriable error."""
    return name in _NAMES
