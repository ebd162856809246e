"""What the users of a partition were told, to be held against what is found after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

from tailrace.records.batch import BatchHeader, assign_offsets, read_header
from tailrace.records.record import Record, read_records
from tailrace.storage.error import StorageError

TRANSACTIONAL_ID = 30
"""The producer that writes in transactions."""


class Violation(AssertionError):
    """A promise that storage did not keep."""


def violate(message: str) -> NoReturn:
    raise Violation(message)


def require(condition: object, message: str) -> None:
    """Check a promise; unlike assert this tells apart a broken promise and a mistake in the test."""
    if not condition:
        violate(message)


@dataclass(frozen=True)
class Sent:
    """A batch as it stands in the log if it stands there."""

    data: bytes
    base_offset: int
    next_offset: int

    @classmethod
    def at(cls, batch: bytes | bytearray, base_offset: int, leader_epoch: int) -> Sent:
        data = bytearray(batch)
        assign_offsets(data, 0, base_offset, leader_epoch)
        return cls(bytes(data), base_offset, base_offset + read_header(data).last_offset_delta + 1)

    @cached_property
    def header(self) -> BatchHeader:
        return read_header(self.data)

    @cached_property
    def records(self) -> list[Record]:
        return list(read_records(self.data))

    def __repr__(self) -> str:
        header = self.header
        return f"[{self.base_offset}, {self.next_offset}) of {header.producer_id} seq {header.base_sequence}"


@dataclass
class Ledger:
    """One partition: the batches it acknowledged and what may have become of them."""

    held: list[Sent] = field(default_factory=list)
    doubtful: list[Sent] = field(default_factory=list)  # offered behind them, never answered
    refused: list[Sent] = field(default_factory=list)  # answered with an error since the last flush
    durable_end: int = 0  # everything below survives a power loss
    start_offset: int = 0  # the log begins here or before
    durable_start: int = 0  # and here or after, even after a power loss
    end_offset: int = 0
    floor: int | None = None  # while it is being truncated: what stays in any case
    is_vanishing: bool = False  # while everything is being thrown away
    is_compacted: bool = False  # records that are not their key's newest may be gone
    leader_epoch: int = 0

    def offer(self, sent: Sent) -> None:
        self.doubtful.append(sent)

    def acknowledge(self, sent: Sent, *, is_flushed: bool) -> None:
        require(sent.base_offset == self.end_offset, f"{sent} was put behind {self.end_offset}")
        self.doubtful.remove(sent)
        self.held.append(sent)
        self.end_offset = sent.next_offset
        if is_flushed:
            self.note_flush(self.end_offset)

    def refuse(self, sent: Sent) -> None:
        self.doubtful.remove(sent)
        self.refused.append(sent)

    def note_flush(self, end_offset: int) -> None:
        self.durable_end = max(self.durable_end, end_offset)
        # One flush syncs the cut as well that removed them.
        self.refused = [sent for sent in self.refused if sent.base_offset >= end_offset]

    def note_start(self, start_offset: int, durable_start: int) -> None:
        self.start_offset = start_offset
        self.durable_start = max(self.durable_start, durable_start)

    def begin_truncation(self, offset: int, first_offset: int) -> int:
        """The end of the log once everything that reaches `offset` is gone."""
        # A compacted log too ends where its last batch does, though the next began later.
        kept = [sent.next_offset for sent in self.held if sent.next_offset <= offset]
        self.floor = max([first_offset, *kept])
        self.durable_end = min(self.durable_end, self.floor)
        self.durable_start = min(self.durable_start, self.floor)
        return self.floor

    def end_truncation(self) -> None:
        if self.floor is not None:
            self.cut(self.floor)
            self.floor = None

    def cut(self, end_offset: int) -> None:
        self.held = [sent for sent in self.held if sent.next_offset <= end_offset]
        self.refused = [sent for sent in self.refused if sent.next_offset <= end_offset]
        self.end_offset = end_offset
        self.durable_end = min(self.durable_end, end_offset)
        self.start_offset = min(self.start_offset, end_offset)

    @contextmanager
    def refusable(self, is_offline: Callable[[], bool]) -> Iterator[None]:
        """A truncation that a full disk may refuse before it has removed anything."""
        before = (self.floor, self.is_vanishing, self.durable_end, self.durable_start)
        try:
            yield
        except StorageError:
            if not is_offline():
                self.floor, self.is_vanishing, self.durable_end, self.durable_start = before
            raise

    def begin_restart(self) -> None:
        """Everything is being thrown away, in any order."""
        self.is_vanishing = True
        self.durable_end = self.durable_start = 0

    def restart(self, offset: int) -> None:
        """Everything was thrown away; the log begins again."""
        self.held, self.doubtful, self.refused = [], [], []
        self.durable_end = self.start_offset = self.durable_start = self.end_offset = offset
        self.floor, self.is_vanishing = None, False

    def resume(self, found: list[Sent], start_offset: int, end_offset: int, *, is_on_disk: bool) -> None:
        """Go on from what a start found, which was checked."""
        known = {(sent.base_offset, sent.data) for sent in found}
        gone = [sent for sent in (*self.held, *self.doubtful) if (sent.base_offset, sent.data) not in known]
        first = found[0].base_offset if found else start_offset
        is_new = self.is_vanishing and not found
        # What compaction took away before the first batch is not below the log.
        below = [] if is_new or self.is_compacted else [sent for sent in self.held if sent.next_offset <= first]
        self.held = below + found
        self.doubtful = []
        self.floor, self.is_vanishing = None, False
        self.end_offset = end_offset
        self.start_offset = start_offset
        self.durable_start = min(self.durable_start, start_offset)
        self.durable_end = end_offset if is_on_disk else min(self.durable_end, end_offset)
        # Until the next flush a power loss may undo what removed these.
        self.refused = (
            [] if is_on_disk else [sent for sent in self.refused + gone if sent.base_offset >= self.durable_end]
        )

    def candidates(self, base_offset: int, *, is_lossy: bool) -> list[Sent]:
        """The batches that may stand at an offset."""
        known = [*self.held, *self.doubtful, *(self.refused if is_lossy else ())]
        return [sent for sent in known if sent.base_offset == base_offset]

    def records(self, *, is_lossy: bool) -> dict[int, list[Record]]:
        """The records that may stand at each offset."""
        known: dict[int, list[Record]] = {}
        for sent in (*self.held, *self.doubtful, *(self.refused if is_lossy else ())):
            for record in sent.records:
                known.setdefault(record.offset, []).append(record)
        return known

    def newest(self, end_offset: int) -> dict[bytes | None, Record]:
        """The newest acknowledged record of each key below an offset, whatever became of transactions."""
        plain = (sent for sent in self.held if not sent.header.is_transactional)
        records = (record for sent in plain for record in sent.records)
        return {record.key: record for record in records if record.offset < end_offset}

    def next_sequence(self, producer_id: int) -> int:
        for sent in reversed(self.held):
            header = sent.header
            if header.producer_id == producer_id and not header.is_control:
                return header.last_sequence + 1  # compaction may have taken records out of the batch
        return 0
