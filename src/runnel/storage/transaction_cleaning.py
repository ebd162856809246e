"""Which batches of transactions compaction may drop.

Theory of operation. Compaction reads a log in the order of its offsets. The records of an
aborted transaction can go at once, because no reader of committed records wants them and
readers of everything have had their time. Its marker, and the entry of the transaction index,
stay as long as a batch of the transaction was met before it: the next compaction meets none
and may drop both. The marker of a committed transaction stays on the same condition. A marker
that nothing needs any more still lives for `delete.retention.ms`, like a tombstone (KIP-534), so
that a slow reader who has seen the records sees how they ended.
"""

from collections.abc import Iterable

from runnel.records.batch import BatchHeader, Buffer
from runnel.records.control import ControlType, read_control_type
from runnel.records.record import read_records
from runnel.storage.transaction_index import AbortedTransaction


class TransactionCleaning:
    """Follows the transactions of one log, batch by batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_batches: set[int] = set()
        self._committed_with_batches: set[int] = set()
        self._indexed: list[AbortedTransaction] = []

    def take_indexed(self) -> list[AbortedTransaction]:
        """The transactions since the last call whose entries in the transaction index stay."""
        indexed, self._indexed = self._indexed, []
        return indexed

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the next batch, which is no marker, belongs to an aborted transaction."""
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
        """Whether the next batch is a marker of which no transaction is left that it ends."""
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
