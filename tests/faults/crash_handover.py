"""The producers that logs of a crash run are handed when they begin again, and whether they know them later."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.crash_ledger import TRANSACTIONAL_ID, Sent, require, violate

from tailrace.storage.log import Log
from tailrace.storage.producer_state import NO_TRANSACTION, ProducerBatch, ProducerEntry, ProducerState

PRODUCER_IDS = (10, 11, TRANSACTIONAL_ID, 40)
"""The last one writes nothing in any script, so that only the snapshot of the handover has it."""


@dataclass(frozen=True)
class Handover:
    """What a leader knows of producers from the records below an offset, all of which it has deleted."""

    offset: int
    number: int  # tells the sequence numbers of a log's handovers apart
    time_ms: int

    def entries(self) -> list[ProducerEntry]:
        """Return entries that the log may change."""
        return [self._entry(producer_id) for producer_id in PRODUCER_IDS]

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = ProducerEntry(producer_id)
        entry.producer_epoch = 0
        entry.last_timestamp = entry.active_ms = self.time_ms
        sequence, last_offset = 100 * self.number, self.offset - 1
        entry.batches.append(ProducerBatch(sequence, sequence, last_offset, last_offset, self.time_ms))
        if producer_id == TRANSACTIONAL_ID and self.number % 2:
            entry.current_txn_first_offset = last_offset
        return entry


class Handovers:
    """The handover that a log knows, and the one that it gets while it begins again."""

    def __init__(self) -> None:
        self._known: Handover | None = None
        self._coming: Handover | None = None
        self._is_elsewhere = True  # whether no segment of the old log begins where it is to begin again
        self._count = 0

    def begin(self, log: Log, offset: int, time_ms: int) -> list[ProducerEntry]:
        """Return the producers for a log that is to begin at an offset; below 0 there are no records to know."""
        self._count += 1
        self._coming = Handover(offset, self._count, time_ms) if offset else None
        # After a crash, an old segment there may be all that is left, with what the old log knew.
        self._is_elsewhere = all(segment.base_offset != offset for segment in log.segments)
        return [] if self._coming is None else self._coming.entries()

    def begin_at_start(self, offset: int) -> None:
        """Note that a log is to begin again without news: it keeps what it was handed at this offset."""
        self._coming = self._known if self._known is not None and self._known.offset == offset else None

    def end(self) -> None:
        """Note that the log has begun again."""
        self._known = self._coming

    def recover(self, log: Log, found: list[Sent], *, is_vanishing: bool) -> None:
        """Check a log after a crash; `is_vanishing` if it was beginning again. Its old records may be there then."""
        if is_vanishing and self._coming is not self._known:
            self._known = self._coming if self._is_elsewhere and not found else None
        self.check(log, found)

    def check(self, log: Log, found: list[Sent]) -> None:
        """Check that a log knows the producers, moved on by its batches, if it begins where it was handed them."""
        handover = self._known
        if handover is None or log.segments[0].base_offset != handover.offset:
            return
        expected = ProducerState(log.producers.expiration_ms)
        expected.restore(handover.entries())
        for sent in found:
            expected.replay(sent.header, sent.base_offset, sent.data)
        for entry in handover.entries():
            name = f"producer {entry.producer_id}, handed over at offset {handover.offset},"
            known, wanted = log.producers.entries.get(entry.producer_id), expected.entries[entry.producer_id]
            if known is None:
                violate(f"{name} is forgotten")
            if log.config.cleanup_policy_compact:
                # Compaction may have removed later batches and markers of the producer.
                require(known.last_sequence >= wanted.last_sequence, f"{name} is known up to {known.last_sequence}")
            else:
                require(_told(known) == _told(wanted), f"{name} is {_told(known)}, not {_told(wanted)}")


def _told(entry: ProducerEntry) -> tuple[object, ...]:
    last = entry.batches[-1][:4] if entry.batches else None
    return entry.producer_epoch, last, entry.current_txn_first_offset != NO_TRANSACTION
