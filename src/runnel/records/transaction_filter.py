"""Which batches of a fetch a reader may see (KIP-98).

A reader of committed records gets, beside the batches, the list of aborted transactions in
them. A producer's batches are skipped from the first offset of its aborted transaction until
the marker that ends it. Markers themselves are never shown to anybody.
"""

from collections.abc import Iterable
from typing import Protocol

from runnel.records.batch import BatchHeader, Buffer
from runnel.records.control import ControlType, read_control_type
from runnel.records.record import read_records


class AbortedTransaction(Protocol):
    """One entry of the list that a fetch response carries."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class TransactionFilter:
    """Goes through the batches of one fetch in their order; without aborted transactions it hides only markers."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._skipped_producers: set[int] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing but markers will be hidden any more."""
        return not self._upcoming and not self._skipped_producers

    def hides(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether the next batch, which stands at `position`, is kept from the reader."""
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
