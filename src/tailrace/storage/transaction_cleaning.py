"""The transactional batches and markers that compaction may remove.

Theory of operation. Compaction reads a log in offset order. It removes the records of an aborted
transaction at once: a `read_committed` consumer skips them, and a `read_uncommitted` consumer has
had time to read them. The ABORT marker and the entry of the transaction index are kept as long as
a batch of the transaction precedes the marker; the next compaction finds none and may remove both.
The COMMIT marker is kept under the same condition. A marker that is no longer needed is kept for
another `delete.retention.ms`, like a tombstone (KIP-534), so that a slow consumer that has read the
records also reads the marker.
"""

from collections.abc import Iterable

from tailrace.records.batch import BatchHeader, Buffer
from tailrace.records.control import ControlType, read_control_type
from tailrace.records.record import read_records
from tailrace.storage.transaction_index import AbortedTransaction


class TransactionCleaning:
    """Tracks the transactions of one log, batch by batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_batches: set[int] = set()
        self._committed_with_batches: set[int] = set()
        self._indexed: list[AbortedTransaction] = []

    def take_indexed(self) -> list[AbortedTransaction]:
        """Return the transactions since the last call whose entries stay in the transaction index."""
        indexed, self._indexed = self._indexed, []
        return indexed

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the next batch, which is not a marker, belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        transaction = self._aborted.get(header.producer_id)
        if transaction is not None and transaction.last_offset > header.base_offset:
            self._aborted_with_batches.add(header.producer_id)
            return True
        self._committed_with_batches.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """Return whether the next batch is a marker whose transaction has no batches left."""
        self._begin_up_to(header.last_offset)
        record = next(read_records(batch), None)
        if record is None:
            return True
        producer_id = header.producer_id
        control_type = read_control_type(record.key)
        if control_type is ControlType.COMMIT:
            had_batches = producer_id in self._committed_with_batches
            self._committed_with_batches.discard(producer_id)
            return not had_batches
        if control_type is not ControlType.ABORT:
            return False
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._aborted_with_batches:
            return True
        self._aborted_with_batches.discard(producer_id)
        self._indexed.append(transaction)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            transaction = self._upcoming.pop()
            self._aborted[transaction.producer_id] = transaction
            self._aborted_with_batches.discard(transaction.producer_id)
