"""One file of record batches with its indexes.

A segment is named after its first offset: `00000000000000000042.log`, `.index`, `.timeindex`,
and `.txnindex` if a transaction was aborted in it.
Batches stand one after the other as they came from the network. The last segment of a log
takes appends; the others are sealed and their index files are written. Files are opened and
indexes loaded when first used, so that opening a log after a clean stop reads nothing.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress

from runnel.base.limits import LOOKUP_CHUNK_BYTES, SCAN_CHUNK_BYTES
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.records.batch import BatchHeader
from runnel.records.error import RecordError
from runnel.storage.batch_walk import find_batch, walk_headers
from runnel.storage.error import StorageError
from runnel.storage.folder import Folder
from runnel.storage.fs import Buffer, File, FileSystem, write_atomically
from runnel.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from runnel.storage.offset_index import CorruptIndex, OffsetIndex
from runnel.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from runnel.storage.time_index import TimeIndex
from runnel.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from runnel.storage.transaction_index import TransactionIndex

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Kafka's name for a file of a segment: the base offset in 20 digits."""
    return os.path.join(directory, f"{base_offset:020d}{suffix}")


class Segment:
    """A segment file and what is known of it without reading it."""

    __slots__ = (
        "_cache",
        "_directory",
        "_file",
        "_first_timestamp",
        "_fs",
        "_interval_bytes",
        "_is_rebuilt",
        "_maximum",
        "_offset_index",
        "_time_index",
        "_transaction_index",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "is_sealed",
        "is_torn",
        "size_bytes",
    )

    def __init__(
        self, folder: Folder, directory: str, base_offset: int, size_bytes: int, interval_bytes: int, created_ms: int
    ) -> None:
        self._fs = folder.fs
        self._cache = folder.index_cache
        self._directory = directory
        self._interval_bytes = interval_bytes
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        # The largest timestamp and the last offset of the first batch that has it.
        self._maximum: tuple[int, int] | None = None
        self._first_timestamp: int | None = None
        self._unindexed_bytes = 0
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        # Whether the indexes were made from the log in this process rather than read from their files.
        self._is_rebuilt = False
        # Whether the index files hold what the indexes in memory do, so that those may be forgotten.
        self.is_sealed = False
        # Whether bytes of a failed append may stand after the last batch.
        self.is_torn = False

    @classmethod
    def create(
        cls, folder: Folder, directory: str, base_offset: int, interval_bytes: int, created_ms: int
    ) -> "Segment":
        """Make an empty segment file. The caller syncs the folder."""
        segment = cls(folder, directory, base_offset, 0, interval_bytes, created_ms)
        # Index files of an earlier segment of this name would be taken for this one's.
        for suffix in INDEX_SUFFIXES:
            folder.fs.remove(segment.path(suffix))
        segment._file = folder.fs.create(segment.path(LOG_SUFFIX))
        segment.reset_indexes()
        return segment

    def adopt(self, file: File) -> None:
        """Be in a file that has another name as yet; `forget` it when it has the right one."""
        self._file = file

    def path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix)

    # A worker that deletes a partition may release or forget at any moment, so each of these holds
    # on to what it found.

    @property
    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._fs.open(self.path(LOG_SUFFIX))
        return file

    def release(self) -> None:
        """Let go of the file, which closes when nobody reads from it any more."""
        self._cache.discard(self)
        self._file = None

    def forget(self) -> None:
        """Let go of indexes and file until they are wanted again."""
        self._offset_index = None
        self._time_index = None
        self._transaction_index = None
        self._file = None

    def seal(self) -> None:
        """Take no more batches, now that the index files are written; memory may be given back from here on."""
        self.is_sealed = True
        self._count_memory()

    def unseal(self) -> None:
        """Take batches again."""
        self.is_sealed = False
        self._cache.discard(self)

    def _count_memory(self) -> None:
        if self.is_sealed:
            size_bytes = (
                len(self._offset_index or ()) * OFFSET_ENTRY_SIZE
                + len(self._time_index or ()) * TIME_ENTRY_SIZE
                + len(self._transaction_index or ()) * TRANSACTION_ENTRY_SIZE
            )
            self._cache.add(self, size_bytes)

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            try:
                data = self._read_index(OFFSET_INDEX_SUFFIX)
                index = self._offset_index = OffsetIndex.decode(data, self.base_offset, self.size_bytes)
                self._count_memory()
            except CorruptIndex:
                index, _ = self.rebuild_indexes()
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            try:
                index = TimeIndex.decode(self._read_index(TIME_INDEX_SUFFIX), self.base_offset)
                if index.last()[0] < self.first_timestamp:
                    raise CorruptIndex("it ends before the first batch")
                self._time_index = index
                self._count_memory()
            except CorruptIndex:
                _, index = self.rebuild_indexes()
        return index

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions; raises `CorruptIndex`, because the segment alone cannot make them anew."""
        index = self._transaction_index
        if index is None:
            data = self._fs.read_file(self.path(TRANSACTION_INDEX_SUFFIX)) or b""
            index = self._transaction_index = TransactionIndex.decode(data, self.base_offset)
            self._count_memory()
        return index

    def reset_transaction_index(self) -> TransactionIndex:
        """Start the transaction index empty, to be filled by whoever replays the batches."""
        index = self._transaction_index = TransactionIndex(self.base_offset)
        return index

    def _read_index(self, suffix: str) -> bytes:
        data = self._fs.read_file(self.path(suffix))
        if data is None:
            raise CorruptIndex("missing")
        return data

    @property
    def maximum(self) -> tuple[int, int]:
        """The largest timestamp, -1 if no record has one, and the last offset of the first batch that has it."""
        if self._maximum is None:
            self._maximum = self._read_last_time_entry() or self.time_index.last()
        return self._maximum

    def _read_last_time_entry(self) -> tuple[int, int] | None:
        """The end of the time index file, which is all that retention wants to know of a segment.

        None if the file has no end that could be right.
        """
        if not self.is_sealed or not self._fs.exists(self.path(TIME_INDEX_SUFFIX)):
            return None
        file = self._fs.open(self.path(TIME_INDEX_SUFFIX))
        position = file.size_bytes() - TIME_ENTRY_SIZE
        if position < 0 or position % TIME_ENTRY_SIZE:
            return None
        ends = file.read_at(0, min(position, TIME_ENTRY_SIZE)) + file.read_at(position, TIME_ENTRY_SIZE)
        try:
            last = TimeIndex.decode(ends, self.base_offset).last()
        except CorruptIndex:
            return None
        return last if last[0] >= self.first_timestamp else None

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, by which segment.ms counts; -1 if there is none."""
        if self._first_timestamp is None:
            self._first_timestamp = -1
            with suppress(RecordError, StopIteration):
                self._first_timestamp = next(self._walk(0))[1].max_timestamp
        return self._first_timestamp

    def is_index_full(self, index_bytes_max: int) -> bool:
        """Whether the next index entry might not fit. The time index keeps room for the entry of sealing."""
        return (
            len(self.offset_index) >= index_bytes_max // OFFSET_ENTRY_SIZE
            or len(self.time_index) >= index_bytes_max // TIME_ENTRY_SIZE - 1
        )

    def append(self, data: Buffer, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. When it fails, the segment is as before."""
        if self.is_torn:
            self.cut_tail()
        position = self.size_bytes
        try:
            self.file.write_at(data, position)
        except StorageError:
            self.is_torn = True
            # The disk may refuse this as well. Then the next append tries again; until then
            # nobody reads past the size, and a start scans and cuts what no clean stop vouched for.
            with suppress(StorageError):
                self.cut_tail()
            raise
        self.note_batch(position, size_bytes, last_offset, max_timestamp)

    def cut_tail(self) -> None:
        """Cut away whatever stands after the last whole batch."""
        self.file.truncate(self.size_bytes)
        self.is_torn = False

    def note_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch that stands in the file into the size and the indexes."""
        maximum = self._maximum if self._maximum is not None else self.maximum
        if max_timestamp > maximum[0]:
            self._maximum = maximum = (max_timestamp, last_offset)
        if self._unindexed_bytes > self._interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(*maximum)
            self._unindexed_bytes = 0
        if position == 0:
            self._first_timestamp = max_timestamp
        self._unindexed_bytes += size_bytes
        self.size_bytes = position + size_bytes

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The position and header of the first batch that ends at `offset` or above."""
        try:
            return self._find(offset)
        except RecordError as error:
            # Perhaps only the index is wrong. One that was made from the log itself is not.
            if self._is_rebuilt:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.path(LOG_SUFFIX)}: {error}") from error
        self.rebuild_indexes()
        return self.find(offset)

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        index = self.offset_index
        entry = index.find(offset)
        if entry < 0:
            return find_batch(self.file, 0, self.size_bytes, offset)
        return find_batch(self.file, index.positions[entry], self.size_bytes, offset, index.offset(entry))

    def offset_above(self, position: int) -> int | None:
        """An offset that no batch before `position` reaches, as far as the index knows one."""
        index = self.offset_index
        entry = bisect_left(index.positions, position)
        return index.offset(entry) if entry < len(index) else None

    def _walk(self, position: int, chunk_bytes: int = LOOKUP_CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        return walk_headers(self.file, position, self.size_bytes, chunk_bytes)

    def headers_from(self, offset: int, chunk_bytes: int = LOOKUP_CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """The position and header of each batch from the one that holds `offset` on."""
        found = self.find(offset)
        try:
            yield from self._walk(found[0] if found else self.size_bytes, chunk_bytes)
        except RecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.path(LOG_SUFFIX)}: {error}") from error

    def truncate_to(self, offset: int) -> int:
        """Cut away every batch that reaches `offset`, for good. Returns the offset that comes next then."""
        found = self.find(offset)
        if found is None:
            return offset
        position, header = found
        next_offset = min(offset, header.base_offset)
        offset_index, time_index = self.offset_index, self.time_index
        self.file.truncate(position)
        self.size_bytes = position
        self.file.sync()
        offset_index.truncate_to(next_offset)
        time_index.truncate_to(next_offset)
        self.transaction_index.truncate_to(next_offset)
        self._unindexed_bytes = 0
        if position == 0:
            self._first_timestamp = None
        self._maximum = self._largest_timestamp(time_index)
        return next_offset

    def _largest_timestamp(self, time_index: TimeIndex) -> tuple[int, int]:
        maximum = time_index.last()
        for _, header in self._walk(self.offset_index.position(maximum[1]), SCAN_CHUNK_BYTES):
            if header.max_timestamp > maximum[0]:
                maximum = (header.max_timestamp, header.last_offset)
        return maximum

    def reset_indexes(self) -> None:
        """Start the indexes empty, to be filled by `note_batch`."""
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._maximum = (-1, self.base_offset)
        self._first_timestamp = None
        self._unindexed_bytes = 0
        self._is_rebuilt = True

    def rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Make the indexes from the log, which was flushed and so is believed except where it is no log."""
        size_bytes = self.size_bytes
        self.reset_indexes()
        with suppress(RecordError):
            for position, header in walk_headers(self.file, 0, size_bytes, SCAN_CHUNK_BYTES):
                self.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        self.size_bytes = size_bytes
        # A disk that takes no writes can still be read from; the next start makes them again.
        # No later scan will look at this segment, so a half-written file must not stay.
        with suppress(StorageError):
            self.write_indexes(write_atomically)
        indexes = self.offset_index, self.time_index
        self._count_memory()
        return indexes

    def write_indexes(self, write: "Callable[[FileSystem, str, bytes], None] | None" = None) -> None:
        """Write the index files, the time index with the largest timestamp as its last entry."""
        write = write or _write
        self.time_index.append(*self.maximum)
        write(self._fs, self.path(OFFSET_INDEX_SUFFIX), self.offset_index.encode())
        write(self._fs, self.path(TIME_INDEX_SUFFIX), self.time_index.encode())
        self.write_transaction_index(write)

    def write_transaction_index(self, write: "Callable[[FileSystem, str, bytes], None] | None" = None) -> None:
        """Write the transaction index if it was used; one without entries has no file, as in Kafka."""
        index = self._transaction_index
        if index is not None and len(index):
            (write or write_atomically)(self._fs, self.path(TRANSACTION_INDEX_SUFFIX), index.encode())
        elif index is not None:
            self._fs.remove(self.path(TRANSACTION_INDEX_SUFFIX))

    def index_paths(self) -> list[str]:
        return [self.path(suffix) for suffix in INDEX_SUFFIXES]

    def delete(self) -> None:
        """Remove the files. Whoever still reads keeps the bytes until it is done."""
        # The log goes first: an index without a log is dropped by the next start, while a log
        # without an index would be taken for a segment.
        self._cache.discard(self)
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            self._fs.remove(self.path(suffix))


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    fs.write_file(path, data)
