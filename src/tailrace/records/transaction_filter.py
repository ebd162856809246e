"""The filter that hides aborted transactions and markers from a consumer (KIP-98).

A `read_committed` consumer gets, with the batches, a list of the aborted transactions in them. It
skips a producer's batches from the first offset of its aborted transaction until the marker that
ends it. Markers are hidden from every consumer.
"""

from collections.abc import Iterable
from typing import Protocol

from tailrace.records.batch import BatchHeader, Buffer
from tailrace.records.control import ControlType, read_control_type
from tailrace.records.record import read_records


class AbortedTransaction(Protocol):
    """One entry of the list in a fetch response."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class TransactionFilter:
    """Filters the batches of one fetch in order. Without aborted transactions it hides only markers."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._skipped_producers: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether only markers are hidden from now on."""
        return not self._upcoming and not self._skipped_producers

    def hides(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Return whether the next batch, at `position`, is hidden from the consumer."""
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._skipped_producers.add(self._upcoming.pop().producer_id)
        if header.is_control:
            if header.producer_id in self._skipped_producers and _ends_aborted(buffer, position):
                self._skipped_producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._skipped_producers


def _ends_aborted(buffer: Buffer, position: int) -> bool:
    record = next(read_records(buffer, position), None)
    return record is not None and read_control_type(record.key) is ControlType.ABORT
