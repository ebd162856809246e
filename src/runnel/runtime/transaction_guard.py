"""Whether a transactional batch may begin a transaction in a partition: only if the coordinator knows of it.

Theory of operation. A batch of a transaction that is open in the partition needs nothing. For the first batch of a
transaction a guard is made, the coordinator is asked, and the batch is appended with the guard. A marker that is
written meanwhile takes the guard away, and then the batch is refused: what the coordinator has said was about a
transaction that is over. Guards are unlike each other, so that an answer to an older question does not count either.

Until the first batch is written a guard also remembers the lowest sequence number that came. Were a later batch
written first, the first one could never be (KIP-890).
"""

from typing import NamedTuple, Protocol

from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from runnel.storage.producer_state import NO_TRANSACTION, ProducerEntry


class FirstBatch(Protocol):
    """What has to be known of a batch that may begin a transaction, such as its header."""

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def base_sequence(self) -> int: ...


class UnnumberedBatch(NamedTuple):
    """Offsets that a group's coordinator is going to write in a transaction."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE


class TransactionGuard:
    """A question to the coordinator that is under way, or answered and not yet used."""

    __slots__ = ("begun_ms", "is_adding", "lowest_sequence", "producer_epoch")

    def __init__(self, batch: FirstBatch, *, is_adding: bool, now_ms: int) -> None:
        """`is_adding` says that the coordinator is asked to add the partition, as producers of KIP-890 want it."""
        self.producer_epoch = batch.producer_epoch
        self.lowest_sequence = batch.base_sequence
        self.is_adding = is_adding
        self.begun_ms = now_ms

    def note(self, batch: FirstBatch) -> None:
        """Take note of another batch that wants to begin the same transaction."""
        if batch.producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, batch.base_sequence)


NO_GUARD = TransactionGuard(UnnumberedBatch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH), is_adding=False, now_ms=0)
"""Always holds: for batches of old producers where `transaction.partition.verification.enable` is off."""


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
        """The guard for a batch whose coordinator has to be asked; None if its transaction is open already."""
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
        """Refuse a transactional batch that is neither in an open transaction nor under a guard that still holds."""
        if entry is not None:
            _check_epoch(entry, header)
            if _is_open(entry, header):
                return
        if guard is NO_GUARD:
            return
        current = self._guards.get(header.producer_id)
        if current is None or current is not guard:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "the batch is in no transaction that is under way")
        if header.base_sequence == NO_SEQUENCE:
            return  # a group's coordinator numbers no batches
        if current.is_adding and header.base_sequence != 0 and (entry is None or not entry.batches):
            message = f"sequence {header.base_sequence} of producer {header.producer_id} where 0 comes first"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
        if header.base_sequence > current.lowest_sequence:
            message = f"sequence {header.base_sequence} of producer {header.producer_id} before one that came earlier"
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def written(self, header: BatchHeader) -> None:
        """A transactional batch or a marker was written: what was asked before is over.

        The one exception is a marker with the epoch of the next transaction, which a producer of KIP-890 may already
        have begun.
        """
        guard = self._guards.get(header.producer_id)
        if guard is None:
            return
        if header.is_control and guard.is_adding and guard.producer_epoch == header.producer_epoch:
            return
        del self._guards[header.producer_id]

    def expire(self, before_ms: int) -> None:
        """Forget the guards that are older than that, whose producers have given up."""
        for producer_id in [key for key, guard in self._guards.items() if guard.begun_ms < before_ms]:
            del self._guards[producer_id]

    def clear(self) -> None:
        """Forget them all, because another broker leads."""
        self._guards.clear()


def _is_open(entry: ProducerEntry, batch: FirstBatch) -> bool:
    return entry.current_txn_first_offset != NO_TRANSACTION and entry.producer_epoch == batch.producer_epoch


def _check_epoch(entry: ProducerEntry, batch: FirstBatch) -> None:
    if batch.producer_epoch < entry.producer_epoch:
        message = f"epoch {batch.producer_epoch} of producer {entry.producer_id} is before {entry.producer_epoch}"
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
