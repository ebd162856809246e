"""Checks of index entries against the log.

Each check receives the batches of a segment in order and yields the problems it finds. An index
may have fewer entries than the log allows, because the newest entries of an active segment are
not in its files yet.
"""

from collections.abc import Iterator

from tailrace.records.batch import BatchHeader
from tailrace.storage.finding import Finding
from tailrace.storage.index_file import (
    IndexFile,
    OffsetEntry,
    TimeEntry,
    TransactionEntry,
    read_offset_entries,
    read_time_entries,
    read_transaction_entries,
)
from tailrace.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from tailrace.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from tailrace.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from tailrace.storage.transaction_index import AbortedTransaction


class OffsetIndexCheck:
    """Check that every entry has the position of a batch and its last offset."""

    def __init__(self, path: str, data: bytes, base_offset: int) -> None:
        self._path = path
        self._entries, self._file = read_offset_entries(data, base_offset)
        self._next = 0
        # Kafka before 4.0 wrote one entry for several batches, with the last offset of the last of them.
        self._open: OffsetEntry | None = None

    def begin(self) -> Iterator[Finding]:
        yield from _leftover(self._path, self._file)
        for number, (before, after) in enumerate(zip(self._entries, self._entries[1:], strict=False), 1):
            if after.offset <= before.offset or after.position <= before.position:
                yield self._finding(number, after, "the entry is not above the previous one")
                # Do not compare the rest with the log: every later entry would be reported too.
                del self._entries[number:]
                return

    def batch(self, position: int, header: BatchHeader) -> Iterator[Finding]:
        yield from self._passed(position)
        if self._next < len(self._entries) and self._entries[self._next].position == position:
            yield from self._unmatched()
            self._open = self._entries[self._next]
            self._next += 1
        entry = self._open
        if entry is not None and entry.offset <= header.last_offset:
            if entry.offset != header.last_offset:
                batch = f"offsets {header.base_offset} to {header.last_offset}"
                text = f"offset {entry.offset} at position {entry.position}, but the batch there has {batch}"
                yield self._finding(self._next - 1, entry, text)
            self._open = None

    def damage(self, position: int, end: int) -> Iterator[Finding]:
        """Skip the entries for bytes that are not a batch, or not the batch that the index means."""
        yield from self._passed(position)
        while self._next < len(self._entries) and self._entries[self._next].position < end:
            self._next += 1

    def _passed(self, position: int) -> Iterator[Finding]:
        while self._next < len(self._entries) and self._entries[self._next].position < position:
            entry = self._entries[self._next]
            yield self._finding(self._next, entry, f"no batch begins at position {entry.position}")
            self._next += 1

    def end(self, size_bytes: int) -> Iterator[Finding]:
        yield from self._unmatched()
        yield from self._passed(max(size_bytes, 1 << 32))

    def _unmatched(self) -> Iterator[Finding]:
        if self._open is not None:
            text = f"no batch from position {self._open.position} on ends with offset {self._open.offset}"
            yield self._finding(self._next - 1, self._open, text)
        self._open = None

    def _finding(self, number: int, entry: OffsetEntry, text: str) -> Finding:
        return Finding(self._path, text, number * OFFSET_ENTRY_SIZE, entry.offset)


class TimeIndexCheck:
    """Check that every entry has the largest timestamp of the batches up to its offset."""

    def __init__(self, path: str, data: bytes, base_offset: int) -> None:
        self._path = path
        self._entries, self._file = read_time_entries(data, base_offset)
        self._next = 0
        self._newest = -1
        self._is_lost = False

    def begin(self) -> Iterator[Finding]:
        yield from _leftover(self._path, self._file)
        for number, (before, after) in enumerate(zip(self._entries, self._entries[1:], strict=False), 1):
            if after.timestamp <= before.timestamp or after.offset <= before.offset:
                yield self._finding(number, after, "the entry is not above the previous one")
                del self._entries[number:]
                return

    def damage(self) -> None:
        """Stop checking after an unreadable batch, which may have had the largest timestamp."""
        self._is_lost = True

    def batch(self, header: BatchHeader) -> Iterator[Finding]:
        if self._is_lost:
            return
        self._newest = max(self._newest, header.max_timestamp)
        while self._next < len(self._entries) and self._entries[self._next].offset <= header.last_offset:
            entry = self._entries[self._next]
            if entry.offset < header.base_offset:
                yield self._finding(self._next, entry, f"no batch contains offset {entry.offset}")
            elif entry.timestamp != self._newest:
                text = f"timestamp {entry.timestamp}, but the largest up to that offset is {self._newest}"
                yield self._finding(self._next, entry, text)
            self._next += 1

    def end(self, *, is_complete: bool) -> Iterator[Finding]:
        if self._is_lost:
            return
        for number in range(self._next, len(self._entries)):
            entry = self._entries[number]
            yield self._finding(number, entry, f"offset {entry.offset} is after the last batch")
        last = self._entries[-1].timestamp if self._entries else -1
        if last < 0 and self._file.unused_count:
            last = 0  # all zeros may be an entry: the first offset, with timestamp 0
        if is_complete and last < self._newest:
            yield Finding(self._path, f"ends with timestamp {last}, but the largest in the segment is {self._newest}")

    def _finding(self, number: int, entry: TimeEntry, text: str) -> Finding:
        return Finding(self._path, text, number * TIME_ENTRY_SIZE, entry.offset)


class TransactionIndexCheck:
    """Check that the index holds every aborted transaction and no other.

    Compaction removes the records of aborted transactions before their markers, so after a gap in
    the log a transaction may have begun earlier than the log shows, or not appear in it at all.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        entries, self._file = read_transaction_entries(data)
        self._entries = {entry.last_offset: (number, entry) for number, entry in enumerate(entries)}
        self._in_order = entries

    def begin(self, base_offset: int) -> Iterator[Finding]:
        yield from _leftover(self._path, self._file)
        previous = base_offset - 1
        for number, entry in enumerate(self._in_order):
            if entry.version != 0:
                yield self._finding(number, entry, f"unknown version {entry.version}")
            if entry.last_offset <= previous or entry.first_offset >= entry.last_offset:
                yield self._finding(number, entry, "the entry is not after the previous one, or ends before it begins")
            previous = max(previous, entry.last_offset)

    def marker(
        self, header: BatchHeader, aborted: AbortedTransaction | None, *, is_abort: bool, has_gap: bool
    ) -> Iterator[Finding]:
        """Check a control batch, with the transaction that it aborts according to the log."""
        found = self._entries.pop(header.base_offset, None)
        if found is None:
            if aborted is not None and not has_gap:
                text = (
                    f"the aborted transaction of producer {aborted.producer_id} from {aborted.first_offset} is missing"
                )
                yield Finding(self._path, text, offset=header.base_offset)
            return
        number, entry = found
        if not is_abort or entry.producer_id != header.producer_id:
            yield self._finding(number, entry, f"the marker aborts no transaction of producer {entry.producer_id}")
        elif aborted is not None:
            is_right = entry[1:] == aborted
            if not is_right and not (has_gap and entry.first_offset <= aborted.first_offset):
                yield self._finding(number, entry, f"the entry is {entry[1:]}, but the log has {tuple(aborted)}")
        elif not has_gap:
            yield self._finding(number, entry, f"producer {entry.producer_id} had no transaction open")

    def end(self, *, has_gap: bool) -> Iterator[Finding]:
        if not has_gap:
            for number, entry in self._entries.values():
                yield self._finding(number, entry, "there is no marker at this offset")

    def _finding(self, number: int, entry: TransactionEntry, text: str) -> Finding:
        return Finding(self._path, text, number * TRANSACTION_ENTRY_SIZE, entry.last_offset)


def _leftover(path: str, file: IndexFile) -> Iterator[Finding]:
    if file.leftover_bytes:
        yield Finding(path, f"{file.leftover_bytes} bytes at the end are not a whole entry")
