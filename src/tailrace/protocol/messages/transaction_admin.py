"""Messages that list and describe transactions (KIP-664)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import INT16, INT32, INT64, STRING, array


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    """Request the state of transactional ids."""

    transactional_ids: list[str] = wire(array(STRING), "0+")


class DescribeTransactionsResponseTopic(Message):
    """The partitions of one topic in the transaction."""

    topic: str = wire(STRING, "0+")
    partitions: list[int] = wire(array(INT32), "0+")


class DescribeTransactionsResponseTransaction(Message):
    """One transactional id and its transaction."""

    error_code: int = wire(INT16, "0+")
    transactional_id: str = wire(STRING, "0+")
    transaction_state: str = wire(STRING, "0+")
    transaction_timeout_ms: int = wire(INT32, "0+")
    transaction_start_time_ms: int = wire(INT64, "0+")
    producer_id: int = wire(INT64, "0+")
    producer_epoch: int = wire(INT16, "0+")
    topics: list[DescribeTransactionsResponseTopic] = wire(array(DescribeTransactionsResponseTopic), "0+")


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    """The described transactions."""

    throttle_time_ms: int = wire(INT32, "0+")
    transaction_states: list[DescribeTransactionsResponseTransaction] = wire(
        array(DescribeTransactionsResponseTransaction), "0+"
    )


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    """List the transactional ids that this broker coordinates."""

    state_filters: list[str] = wire(array(STRING), "0+")
    producer_id_filters: list[int] = wire(array(INT64), "0+")
    duration_filter: int = wire(INT64, "1+", default=-1)  # KIP-994: only transactions that run longer, in milliseconds
    transactional_id_pattern: str | None = wire(STRING, "2+", nullable="2+", default=None)  # KIP-1152


class ListTransactionsResponseTransaction(Message):
    """A transaction in a listing."""

    transactional_id: str = wire(STRING, "0+")
    producer_id: int = wire(INT64, "0+")
    transaction_state: str = wire(STRING, "0+")


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    """The transactions of this broker."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    unknown_state_filters: list[str] = wire(array(STRING), "0+")
    transaction_states: list[ListTransactionsResponseTransaction] = wire(
        array(ListTransactionsResponseTransaction), "0+"
    )
