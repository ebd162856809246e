"""The state of the producers of a log, by which a retried batch is appended only once.

Theory of operation. A producer numbers its records in each partition. For each producer id the
log keeps the epoch and the last five batches. A batch that continues the last one is accepted.
A retry of one of the five is answered with the offset of the first append. Any other batch is out
of order. A newer epoch starts again at sequence 0; an older epoch is fenced. A producer unknown
to the log is accepted with any sequence, because retention may have deleted its state (as Kafka
does since 2.5, which retired UNKNOWN_PRODUCER_ID).

Retention deletes batches, not what is known of their producers. A replica that begins later than its leader cannot read
it from the log, so its leader tells it (`known_before`). Kafka does not, and a retry is written twice if such a replica
is elected.

A producer is forgotten when the log has got no batch of it for `producer.id.expiration.ms`. Kafka goes by the
timestamps of the records. It forgets a producer of old records at its next look, and writes a retry after that twice.

A transaction is open from a producer's first transactional batch to the marker that ends it.
It holds back the last stable offset until then, and after that until the marker is replicated.

`check` decides and changes nothing. `replay` is the only method that changes the state, for an
append and for recovery alike.
"""

from collections import deque
from collections.abc import Iterable
from heapq import nlargest
from typing import NamedTuple

from tailrace.base.limits import PRODUCERS_TOLD_MAX
from tailrace.base.sentinel import NO_EPOCH
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    increment_sequence,
)
from tailrace.records.control import ControlType, EndTransactionMarker, read_end_transaction_marker
from tailrace.records.error import RecordError
from tailrace.records.record import read_records
from tailrace.storage.transaction_index import AbortedTransaction

REMEMBERED_BATCH_COUNT = 5  # Kafka's limit of max.in.flight.requests.per.connection with idempotence
NO_TRANSACTION = -1
PRODUCER_EPOCH_MAX = 2**15 - 1


class ProducerBatch(NamedTuple):
    """A batch in the log, by its sequence numbers and offsets."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Duplicate(NamedTuple):
    """The place of a batch that is already in the log."""

    base_offset: int
    last_offset: int
    timestamp: int


class EndedTransaction(NamedTuple):
    """The first offset of a transaction and the offset of its marker."""

    first_offset: int
    marker_offset: int


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "active_ms",
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "is_partial",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.active_ms = NO_TIMESTAMP  # when the log got the last batch; the batch's timestamp if that is later
        self.current_txn_first_offset = NO_TRANSACTION
        self.is_partial = False  # whether the log may hold earlier batches of the last five
        self.batches: deque[ProducerBatch] = deque(maxlen=REMEMBERED_BATCH_COUNT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batches.clear()
            self.is_partial = False
            self.producer_epoch = producer_epoch

    def before(self, offset: int) -> "ProducerEntry | None":
        """Return what is known of the producer from the log below `offset`; None if it may have begun later."""
        known = [batch for batch in self.batches if batch.last_offset < offset]
        if self.batches and not known:
            return None
        entry = ProducerEntry(self.producer_id)
        entry.producer_epoch, entry.coordinator_epoch = self.producer_epoch, self.coordinator_epoch
        entry.last_timestamp, entry.active_ms = self.last_timestamp, self.active_ms
        if self.current_txn_first_offset < offset:
            entry.current_txn_first_offset = self.current_txn_first_offset
        entry.batches.extend(known)
        return entry

    def find(self, header: BatchHeader) -> ProducerBatch | None:
        """Return the remembered batch with the sequence numbers of `header`, or None if it has no numbers."""
        if header.base_sequence == NO_SEQUENCE:
            return None
        base, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.base_sequence == base and batch.last_sequence == last:
                return batch
        return None


class ProducerState:
    """The state of all producers of one log."""

    __slots__ = ("_ended", "_open", "entries", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self.entries: dict[int, ProducerEntry] = {}
        # First offsets of open transactions by producer id. They are added in log order, so the first is
        # the oldest.
        self._open: dict[int, int] = {}
        # Ended transactions whose markers may not be replicated yet, in the order of the markers.
        self._ended: deque[EndedTransaction] = deque()

    @property
    def ended(self) -> tuple[EndedTransaction, ...]:
        """The transactions whose markers may not be replicated yet."""
        return tuple(self._ended)

    def restore(self, entries: Iterable[ProducerEntry], ended: Iterable[EndedTransaction] = ()) -> None:
        """Replace the state by these entries."""
        self.entries = {entry.producer_id: entry for entry in entries}
        open_entries = [entry for entry in self.entries.values() if entry.current_txn_first_offset != NO_TRANSACTION]
        open_entries.sort(key=lambda entry: entry.current_txn_first_offset)
        self._open = {entry.producer_id: entry.current_txn_first_offset for entry in open_entries}
        self._ended = deque(sorted(ended, key=lambda transaction: transaction.marker_offset))

    def known_before(self, offset: int) -> list[ProducerEntry]:
        """Return the producers that a log that begins at `offset` cannot show, without their later batches.

        Of very many producers, those are left out that are the least likely to repeat a batch.
        """
        newest: Iterable[ProducerEntry] = self.entries.values()
        if len(self.entries) > PRODUCERS_TOLD_MAX:
            newest = nlargest(
                PRODUCERS_TOLD_MAX, newest, key=lambda entry: (entry.producer_id in self._open, entry.active_ms)
            )
        entries = (entry.before(offset) for entry in newest)
        return [entry for entry in entries if entry is not None]

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Return None if a client's batch is to be appended, or the place of its duplicate.

        Raise `ApiError` with INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE.
        """
        if header.producer_id < 0:
            return None
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return None
        if header.producer_epoch < entry.producer_epoch:
            message = (
                f"producer {entry.producer_id} sent epoch {header.producer_epoch}, "
                f"but its epoch is {entry.producer_epoch}"
            )
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if header.producer_epoch == entry.producer_epoch:
            batch = entry.find(header)
            if batch is not None:
                return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp)
        _check_sequence(entry, header)
        if entry.current_txn_first_offset != NO_TRANSACTION and not header.is_transactional:
            first_offset = entry.current_txn_first_offset
            message = f"producer {entry.producer_id} has an open transaction since offset {first_offset}"
            raise ApiError(ErrorCode.INVALID_TXN_STATE, message)
        return None

    def check_marker(
        self, producer_id: int, producer_epoch: int, *, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Raise `ApiError` if the marker of a producer's transaction comes too late.

        From transaction version 2 on, a marker has an epoch that no record before it has (KIP-1228). A marker that is
        sent again, because its coordinator did not get the acknowledgement, is appended again and changes nothing.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        current = entry.producer_epoch
        is_late = producer_epoch < current
        if producer_epoch == current and transaction_version >= 2:
            is_late = entry.current_txn_first_offset != NO_TRANSACTION and producer_epoch != PRODUCER_EPOCH_MAX
        if is_late:
            message = f"the marker of producer {producer_id} has epoch {producer_epoch}, but the log has {current}"
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if coordinator_epoch < entry.coordinator_epoch:
            message = f"coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}"
            raise ApiError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)

    def replay(
        self, header: BatchHeader, base_offset: int, batch: Buffer, now_ms: int = NO_TIMESTAMP
    ) -> AbortedTransaction | None:
        """Apply a batch that is at `base_offset` of the log, ignoring the offset in its header.

        Its producer expires some time after `now_ms`, or after the timestamp of the batch if that is later. Return the
        transaction that the batch aborts, if it is an ABORT marker.
        """
        if header.producer_id < 0:
            return None
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.active_ms = max(header.max_timestamp, now_ms)
        if header.is_control:
            return self._end_transaction(entry, header, base_offset, batch)
        entry.begin_epoch(header.producer_epoch)
        timestamp = header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        entry.batches.append(
            ProducerBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp)
        )
        entry.last_timestamp = timestamp
        if header.is_transactional and entry.current_txn_first_offset == NO_TRANSACTION:
            entry.current_txn_first_offset = base_offset
            self._open[entry.producer_id] = base_offset
        return None

    def _end_transaction(
        self, entry: ProducerEntry, header: BatchHeader, offset: int, batch: Buffer
    ) -> AbortedTransaction | None:
        marker = _read_marker(batch)
        if marker is None:
            if header.record_count == 0 and header.producer_epoch > entry.producer_epoch:
                # Compaction keeps the empty batch of a marker, because no other batch carries the epoch.
                entry.begin_epoch(header.producer_epoch)
                entry.last_timestamp = header.max_timestamp
            return None
        entry.begin_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.current_txn_first_offset = NO_TRANSACTION
        first_offset = self._open.pop(entry.producer_id, None)
        if first_offset is None:
            return None  # the transaction has no records in this log
        self._ended.append(EndedTransaction(first_offset, offset))
        if marker.control_type is not ControlType.ABORT:
            return None
        last_stable_offset = next(iter(self._open.values()), offset + 1)
        return AbortedTransaction(entry.producer_id, first_offset, offset, last_stable_offset)

    def first_undecided_offset(self) -> int | None:
        """Return the first offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    def oldest_open(self) -> ProducerEntry | None:
        """Return the producer of the oldest open transaction."""
        producer_id = next(iter(self._open), None)
        return None if producer_id is None else self.entries[producer_id]

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose marker is at or above the high watermark."""
        undecided = self.first_undecided_offset()
        if not self._ended:
            return undecided
        offsets = [first_offset for first_offset, marker_offset in self._ended if marker_offset >= high_watermark]
        if undecided is not None:
            offsets.append(undecided)
        return min(offsets, default=None)

    def acknowledge(self, high_watermark: int) -> None:
        """Remove the ended transactions whose markers are replicated."""
        while self._ended and self._ended[0].marker_offset < high_watermark:
            self._ended.popleft()

    def expire(self, now_ms: int) -> int:
        """Remove producers without a recent batch or an open transaction. Return the number removed."""
        expired = [entry.producer_id for entry in self.entries.values() if self.is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    def is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset == NO_TRANSACTION and now_ms - entry.active_ms >= self.expiration_ms


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.base_sequence == NO_SEQUENCE:
        return  # a batch of a group coordinator; clients must number theirs
    if header.producer_epoch != entry.producer_epoch:
        expected = 0
    else:
        last = entry.last_sequence
        expected = 0 if last == NO_SEQUENCE else increment_sequence(last, 1)
    if header.base_sequence != expected:
        message = f"producer {entry.producer_id} sent sequence {header.base_sequence}, but {expected} is expected"
        raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)


def _read_marker(batch: Buffer) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if compaction emptied it, or if it ends no transaction."""
    try:
        record = next(read_records(batch), None)
        return None if record is None else read_end_transaction_marker(record)
    except RecordError:
        return None
