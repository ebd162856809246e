"""Rejected batches: what brokers told producers, what the producers made of it, and what the history records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tailrace.client.produce.request import MAY_BE_WRITTEN
from tailrace.client.produce.sequence import PartitionSequence
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.produce import ProduceRequest, ProduceResponse
from tailrace.sim.history import Pending
from tailrace.sim.process import PROCESS

_REFUSALS = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Errors of records that a broker has not appended."""

Count = Callable[[str], None]


def settle_failed_send(operation: Pending, error: Exception) -> None:
    """Record that a send failed. Its outcome is unknown if the client says that the record may be written."""
    is_definite = isinstance(error, ApiError) and error.code in _REFUSALS and MAY_BE_WRITTEN not in str(error)
    (operation.fail if is_definite else operation.unknown)(error)


def find_refusals(request: object, response: object) -> list[ErrorCode]:
    """Return the errors in a broker's answer to a producer."""
    if not isinstance(request, ProduceRequest) or not isinstance(response, ProduceResponse):
        return []
    answers = (answer for topic in response.responses for answer in topic.partition_responses)
    return [ErrorCode(answer.error_code) for answer in answers if answer.error_code]


@contextmanager
def counting_restarts(count: Count) -> Iterator[None]:
    """Count how often producers restart the sequence numbers of a partition, and how often a broker was the reason."""
    refuse, restart = PartitionSequence.refuse, PartitionSequence.restart

    def count_refuse(sequence: PartitionSequence, *arguments: Any) -> None:
        if PROCESS.get() is not None:
            count("batches out of order for a broker")
        refuse(sequence, *arguments)

    def count_restart(sequence: PartitionSequence, *arguments: Any) -> None:
        if PROCESS.get() is not None and sequence.identity is not None:
            count("restarts of sequence numbers")
        restart(sequence, *arguments)

    with patch.object(PartitionSequence, "refuse", count_refuse):
        with patch.object(PartitionSequence, "restart", count_restart):
            yield
