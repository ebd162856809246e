"""Whether the entries of index files say what is true of the log.

Each check is given the batches of a segment in their order and yields what it finds. An
index is allowed to know less than the log, because a segment in use has entries that are not
in its files yet.
"""

from collections.abc import Iterator

from runnel.records.batch import BatchHeader
from runnel.storage.finding import Finding
from runnel.storage.index_file import (
    IndexFile,
    OffsetEntry,
    TimeEntry,
    TransactionEntry,
    read_offset_entries,
    read_time_entries,
    read_transaction_entries,
)
from runnel.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from runnel.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from runnel.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from runnel.storage.transaction_index import AbortedTransaction


class OffsetIndexCheck:
    """Every entry names the beginning of a batch, and the last offset of it."""

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
                yield self._finding(number, after, "not above the entry before it")
                # What follows would be told apart from the log entry by entry, to no use.
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
                text = (
                    f"names {entry.offset} at {entry.position}, where {header.base_offset} to {header.last_offset} are"
                )
                yield self._finding(self._next - 1, entry, text)
            self._open = None

    def damage(self, position: int, end: int) -> Iterator[Finding]:
        """Bytes that are no batch, or not the one that the index means."""
        yield from self._passed(position)
        while self._next < len(self._entries) and self._entries[self._next].position < end:
            self._next += 1

    def _passed(self, position: int) -> Iterator[Finding]:
        while self._next < len(self._entries) and self._entries[self._next].position < position:
            entry = self._entries[self._next]
            yield self._finding(self._next, entry, f"no batch begins at {entry.position}")
            self._next += 1

    def end(self, size_bytes: int) -> Iterator[Finding]:
        yield from self._unmatched()
        yield from self._passed(max(size_bytes, 1 << 32))

    def _unmatched(self) -> Iterator[Finding]:
        if self._open is not None:
            text = f"no batch from {self._open.position} on ends with {self._open.offset}"
            yield self._finding(self._next - 1, self._open, text)
        self._open = None

    def _finding(self, number: int, entry: OffsetEntry, text: str) -> Finding:
        return Finding(self._path, text, number * OFFSET_ENTRY_SIZE, entry.offset)


class TimeIndexCheck:
    """Every entry has the largest timestamp of the batches up to its offset."""

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
                yield self._finding(number, after, "not above the entry before it")
                del self._entries[number:]
                return

    def damage(self) -> None:
        """A batch cannot be read. It may have had the largest timestamp, so nothing can be said of what follows."""
        self._is_lost = True

    def batch(self, header: BatchHeader) -> Iterator[Finding]:
        if self._is_lost:
            return
        self._newest = max(self._newest, header.max_timestamp)
        while self._next < len(self._entries) and self._entries[self._next].offset <= header.last_offset:
            entry = self._entries[self._next]
            if entry.offset < header.base_offset:
                yield self._finding(self._next, entry, f"no batch holds offset {entry.offset}")
            elif entry.timestamp != self._newest:
                text = f"timestamp {entry.timestamp} where the largest up to there is {self._newest}"
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
            last = 0  # the first of the zeros may be an entry: the first offset, with timestamp 0
        if is_complete and last < self._newest:
            yield Finding(self._path, f"ends with timestamp {last}, but the largest in the segment is {self._newest}")

    def _finding(self, number: int, entry: TimeEntry, text: str) -> Finding:
        return Finding(self._path, text, number * TIME_ENTRY_SIZE, entry.offset)


class TransactionIndexCheck:
    """Every aborted transaction is there, and what is there was aborted.

    Compaction removes the records of aborted transactions before their markers, so after a gap in
    the log a transaction may have begun earlier than can be seen, or not be seen at all.
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
                yield self._finding(number, entry, f"version {entry.version}")
            if entry.last_offset <= previous or entry.first_offset >= entry.last_offset:
                yield self._finding(number, entry, "not after the entry before it, or ends before it begins")
            previous = max(previous, entry.last_offset)

    def marker(
        self, header: BatchHeader, aborted: AbortedTransaction | None, *, is_abort: bool, has_gap: bool
    ) -> Iterator[Finding]:
        """A control batch, and the transaction that it aborts as far as can be seen."""
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
            yield self._finding(number, entry, f"no marker that aborts for producer {entry.producer_id}")
        elif aborted is not None:
            is_right = entry[1:] == aborted
            if not is_right and not (has_gap and entry.first_offset <= aborted.first_offset):
                yield self._finding(number, entry, f"says {entry[1:]} where the log has {tuple(aborted)}")
        elif not has_gap:
            yield self._finding(number, entry, f"producer {entry.producer_id} had no transaction open")

    def end(self, *, has_gap: bool) -> Iterator[Finding]:
        if not has_gap:
            for number, entry in self._entries.values():
                yield self._finding(number, entry, "no marker stands there")

    def _finding(self, number: int, entry: TransactionEntry, text: str) -> Finding:
        return Finding(self._path, text, number * TRANSACTION_ENTRY_SIZE, entry.last_offset)


def _leftover(path: str, file: IndexFile) -> Iterator[Finding]:
    if file.leftover_bytes:
        yield Finding(path, f"{file.leftover_bytes} bytes at the end are no whole entry")
