"""Guards of the first batch of a transaction in a partition, which is accepted only if the coordinator knows it.

Theory of operation. A batch of a transaction that is open in the partition needs no guard. For the first batch of a
transaction a guard is created, the coordinator is asked, and the batch is appended with the guard. A marker that is
written in the meantime removes the guard, and the batch is then refused: the coordinator's answer was about a
transaction that has ended. Each guard is a different object, so that the answer to an earlier question does not count.

Until the first batch is written, a guard also remembers the lowest sequence number that has arrived. If a later batch
were written first, the first one could never be written (KIP-890).
"""

from typing import NamedTuple, Protocol

from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from tailrace.storage.producer_state import NO_TRANSACTION, ProducerEntry


class FirstBatch(Protocol):
    """A batch that may start a transaction, such as its header."""

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def base_sequence(self) -> int: ...


class UnnumberedBatch(NamedTuple):
    """A batch without a sequence number: offsets that a group's coordinator writes in a transaction."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE


class TransactionGuard:
    """A question to the coordinator that is pending, or answered and not used yet."""

    __slots__ = ("begun_ms", "is_adding", "lowest_sequence", "producer_epoch")

    def __init__(self, batch: FirstBatch, *, is_adding: bool, now_ms: int) -> None:
        """`is_adding` means that the coordinator is asked to add the partition, as producers with KIP-890 expect."""
        self.producer_epoch = batch.producer_epoch
        self.lowest_sequence = batch.base_sequence
        self.is_adding = is_adding
        self.begun_ms = now_ms

    def note(self, batch: FirstBatch) -> None:
        """Note another batch that may start the same transaction."""
        if batch.producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, batch.base_sequence)


NO_GUARD = TransactionGuard(UnnumberedBatch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH), is_adding=False, now_ms=0)
"""A guard that always holds, for older producers if `transaction.partition.verification.enable` is off."""


class TransactionGuards:
    """The guards of one partition, by producer id."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, TransactionGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(
        self, entry: ProducerEntry | None, batch: FirstBatch, *, is_adding: bool, now_ms: int
    ) -> TransactionGuard | None:
        """Return the guard for a batch whose coordinator has to be asked; None if its transaction is already open."""
        if entry is not None:
            _check_epoch(entry, batch)
            if _is_open(entry, batch):
                return None
        guard = self._guards.get(batch.producer_id)
        if guard is None:
            guard = self._guards[batch.producer_id] = TransactionGuard(batch, is_adding=is_adding, now_ms=now_ms)
        else:
            guard.note(batch)
        return guard

    def check(self, entry: ProducerEntry | None, header: BatchHeader, guard: TransactionGuard | None) -> None:
        """Raise ApiError for a batch that is neither in an open transaction nor under a valid guard."""
        if entry is not None:
            _check_epoch(entry, header)
            if _is_open(entry, header):
                return
        if guard is NO_GUARD:
            return
        current = self._guards.get(header.producer_id)
        if current is None or current is not guard:
            message = f"producer {header.producer_id} has no open transaction in this partition"
            raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
        if header.base_sequence == NO_SEQUENCE:
            return  # a group's coordinator does not number its batches
        if current.is_adding and header.base_sequence != 0 and (entry is None or not entry.batches):
            message = f"producer {header.producer_id} starts with sequence {header.base_sequence} instead of 0"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
        if header.base_sequence > current.lowest_sequence:
            message = f"producer {header.producer_id} sent sequence {header.base_sequence} after an unwritten lower one"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def written(self, header: BatchHeader) -> None:
        """Remove the guard after a transactional batch or a marker was written.

        The exception is a marker with the epoch of the next transaction, which a producer with KIP-890 may already have
        started.
        """
        guard = self._guards.get(header.producer_id)
        if guard is None:
            return
        if header.is_control and guard.is_adding and guard.producer_epoch == header.producer_epoch:
            return
        del self._guards[header.producer_id]

    def expire(self, before_ms: int) -> None:
        """Remove guards that are older than `before_ms`, whose producers have given up."""
        for producer_id in [key for key, guard in self._guards.items() if guard.begun_ms < before_ms]:
            del self._guards[producer_id]

    def clear(self) -> None:
        """Remove all guards, because another broker leads."""
        self._guards.clear()


def _is_open(entry: ProducerEntry, batch: FirstBatch) -> bool:
    return entry.current_txn_first_offset != NO_TRANSACTION and entry.producer_epoch == batch.producer_epoch


def _check_epoch(entry: ProducerEntry, batch: FirstBatch) -> None:
    if batch.producer_epoch < entry.producer_epoch:
        message = f"epoch {batch.producer_epoch} of producer {entry.producer_id} is older than {entry.producer_epoch}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
