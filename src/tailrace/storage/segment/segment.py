"""One file of record batches with its indexes.

A segment is named after its first offset: `00000000000000000042.log`, `.index`, `.timeindex`,
and `.txnindex` if a transaction was aborted in it.
It holds the batches as they came from the network. The last segment of a log is active and takes
appends; the others are sealed, and their index files are written and mapped. Files are opened and
indexes mapped on first use, so that opening a log after a clean stop reads nothing, and closed
again when too many are open.

A log and its segments belong to one thread. Another thread may search, sync, close or delete a
segment: each of these operations holds a reference to the file that it uses.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from mmap import mmap
from typing import cast

from tailrace.base.invariant import invariant
from tailrace.base.limits import LOOKUP_CHUNK_BYTES, SCAN_CHUNK_BYTES
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.records.batch import BatchHeader
from tailrace.records.error import CorruptBatch, RecordError
from tailrace.storage.batch_walk import OffsetGap, find_batch, walk_headers
from tailrace.storage.error import StorageError, passing_over_shortage
from tailrace.storage.folder import Folder
from tailrace.storage.fs import Buffer, File, FileSystem, Mapping, write_atomically
from tailrace.storage.handle_pool import Job
from tailrace.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from tailrace.storage.offset_index import AnyOffsetIndex, CorruptIndex, OffsetIndex, SealedOffsetIndex
from tailrace.storage.salvage import Stretch, walk_stretches
from tailrace.storage.segment.file import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentFile,
)
from tailrace.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from tailrace.storage.time_index import AnyTimeIndex, SealedTimeIndex, TimeIndex
from tailrace.storage.transaction_index import TransactionIndex


class Segment(SegmentFile):
    """A segment file and the state that is known without reading it."""

    __slots__ = (
        "_first_timestamp",
        "_interval_bytes",
        "_is_rebuilt",
        "_map_count",
        "_maximum",
        "_offset_index",
        "_time_index",
        "_transaction_index",
        "_unindexed_bytes",
        "created_ms",
        "is_sealed",
        "is_torn",
    )

    def __init__(
        self, folder: Folder, directory: str, base_offset: int, size_bytes: int, interval_bytes: int, created_ms: int
    ) -> None:
        super().__init__(folder, directory, base_offset, size_bytes)
        self._interval_bytes = interval_bytes
        self._offset_index: AnyOffsetIndex | None = None
        self._time_index: AnyTimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._map_count = 0
        # The largest timestamp and the last offset of the first batch that has it.
        self._maximum: tuple[int, int] | None = None
        self._first_timestamp: int | None = None
        self._unindexed_bytes = 0
        self.created_ms = created_ms
        # Whether the indexes were built from the log by this process and not read from their files.
        self._is_rebuilt = False
        # Whether the index files are complete, so that the indexes in memory may be dropped.
        self.is_sealed = False
        # Whether bytes of a failed append may follow the last batch.
        self.is_torn = False

    @classmethod
    def create(
        cls, folder: Folder, directory: str, base_offset: int, interval_bytes: int, created_ms: int
    ) -> "Segment":
        """Create an empty segment file. The caller syncs the folder."""
        segment = cls(folder, directory, base_offset, 0, interval_bytes, created_ms)
        # Index files of an earlier segment with this name would be mistaken for those of this one.
        for suffix in INDEX_SUFFIXES:
            folder.fs.remove(segment.path(suffix))
        segment._file = folder.fs.create(segment.path(LOG_SUFFIX))
        segment.reset_indexes()
        segment.count_handles()
        return segment

    # Handles

    @property
    def handle_count(self) -> int:
        return self._map_count + super().handle_count

    def forget(self) -> Job | None:
        """Drop the file and the mapped indexes until they are used again."""
        if self.is_sealed:
            self._drop_indexes()
        return super().forget()

    def close(self) -> None:
        """Leave the handle pool and drop the file and the indexes."""
        super().close()
        self._drop_indexes()

    def _drop_indexes(self) -> None:
        self._offset_index = self._time_index = self._transaction_index = None
        self._map_count = 0
        self._is_rebuilt = False

    # Indexes

    def seal(self) -> None:
        """Stop taking batches. The index files must be written, and are used from now on."""
        self.is_sealed = True
        self._drop_indexes()
        self.count_handles()

    def unseal(self) -> None:
        """Take batches again."""
        if self.is_sealed:
            self.is_sealed = False
            self._drop_indexes()
            self.count_handles()

    @property
    def offset_index(self) -> AnyOffsetIndex:
        index = self._offset_index
        if index is None:
            try:
                data = self._map_index(OFFSET_INDEX_SUFFIX)
                make = SealedOffsetIndex if self.is_sealed else OffsetIndex.decode
                index = self._offset_index = make(data, self.base_offset, self.size_bytes)
                self._count_mapping(data)
            except CorruptIndex:
                index, _ = self.rebuild_indexes()
        return index

    @property
    def time_index(self) -> AnyTimeIndex:
        index = self._time_index
        if index is None:
            try:
                data = self._map_index(TIME_INDEX_SUFFIX)
                index = (SealedTimeIndex if self.is_sealed else TimeIndex.decode)(data, self.base_offset)
                if index.last()[0] < self.first_timestamp:
                    raise CorruptIndex("the time index ends before the first batch")
                self._time_index = index
                self._count_mapping(data)
            except CorruptIndex:
                _, index = self.rebuild_indexes()
        return index

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions. Raises `CorruptIndex`, because one segment is not enough to rebuild them."""
        index = self._transaction_index
        if index is None:
            data = self._folder.fs.read_file(self.path(TRANSACTION_INDEX_SUFFIX)) or b""
            index = self._transaction_index = TransactionIndex.decode(data, self.base_offset)
        return index

    def reset_transaction_index(self) -> TransactionIndex:
        """Set an empty transaction index, for the caller to fill by replaying the batches."""
        index = self._transaction_index = TransactionIndex(self.base_offset)
        return index

    def _map_index(self, suffix: str) -> Mapping:
        data = self._folder.fs.map_file(self.path(suffix))
        if data is None and self.is_leaving:
            data = self._folder.fs.map_file(self.path(suffix) + DELETED_SUFFIX)
        if data is None:
            raise CorruptIndex("the index file is missing")
        return data

    def _count_mapping(self, data: Mapping) -> None:
        if self.is_sealed and isinstance(data, mmap):
            self._map_count += 1
            self.count_handles()

    def growing_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Return the indexes of an active segment, which are in memory."""
        offset_index, time_index = self.offset_index, self.time_index
        is_active = isinstance(offset_index, OffsetIndex) and isinstance(time_index, TimeIndex)
        invariant(is_active, "the segment is not sealed")
        return cast("OffsetIndex", offset_index), cast("TimeIndex", time_index)

    @property
    def maximum(self) -> tuple[int, int]:
        """The largest timestamp, -1 if there is none, and the last offset of the first batch that has it."""
        if self._maximum is None:
            self._maximum = self._read_last_time_entry() or self.time_index.last()
        return self._maximum

    def _read_last_time_entry(self) -> tuple[int, int] | None:
        """Return the last entry of the time index file, which is all that retention needs of a segment.

        Return None if that entry is invalid.
        """
        path = self.path(TIME_INDEX_SUFFIX)
        if not self.is_sealed or self._time_index is not None or not self._folder.fs.exists(path):
            return None
        file = self._folder.fs.open(path)
        position = file.size_bytes() - TIME_ENTRY_SIZE
        if position < 0 or position % TIME_ENTRY_SIZE:
            return None
        ends = file.read_at(0, min(position, TIME_ENTRY_SIZE)) + file.read_at(position, TIME_ENTRY_SIZE)
        try:
            last = SealedTimeIndex(ends, self.base_offset).last()
        except CorruptIndex:
            return None
        return last if last[0] >= self.first_timestamp else None

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which segment.ms counts; -1 if there is none."""
        if self._first_timestamp is None:
            timestamp = -1
            with suppress(RecordError, StopIteration):
                timestamp = next(self._walk(0))[1].max_timestamp
            self._first_timestamp = timestamp
        return self._first_timestamp

    def is_index_full(self, index_bytes_max: int) -> bool:
        """Return whether the next index entry might not fit. The time index reserves an entry for sealing."""
        # Every append calls this, so avoid the properties for indexes in memory.
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = self.offset_index, self.time_index
        return (
            len(offset_index) >= index_bytes_max // OFFSET_ENTRY_SIZE
            or len(time_index) >= index_bytes_max // TIME_ENTRY_SIZE - 1
        )

    def append(self, data: Buffer, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. On failure the segment is unchanged."""
        if self.is_torn:
            self.cut_tail()
        position = self.size_bytes
        file = self._file
        self.is_used = True
        try:
            if file is None:
                file = self.open()
            file.write_at(data, position)
        except StorageError:
            self.is_torn = True
            # The next flush syncs the file even if it holds nothing new: otherwise a power loss could undo the cut
            # below, in a segment that recovery takes for flushed and does not scan.
            self._synced_bytes = -1
            # The disk may reject this as well. Then the next append tries again. Until then no reader
            # reads past the size, and recovery truncates bytes that no clean stop covers.
            with suppress(StorageError):
                self.cut_tail()
            raise
        self.note_batch(position, size_bytes, last_offset, max_timestamp)
        if self._file is not file:
            # Another thread closed the file for its descriptor. This one has unsynced bytes.
            self._file = file
            self.count_handles()

    def cut_tail(self) -> None:
        """Truncate the file after the last whole batch."""
        self.file.truncate(self.size_bytes)
        self.is_torn = False

    def note_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch in the file to the size and the indexes."""
        maximum = self._maximum if self._maximum is not None else self.maximum
        if max_timestamp > maximum[0]:
            self._maximum = maximum = (max_timestamp, last_offset)
        if self._unindexed_bytes > self._interval_bytes:
            offset_index, time_index = self.growing_indexes()
            offset_index.append(last_offset, position)
            time_index.append(*maximum)
            self._unindexed_bytes = 0
        if position == 0:
            self._first_timestamp = max_timestamp
        self._unindexed_bytes += size_bytes
        self.size_bytes = position + size_bytes

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return the position and header of the first batch that ends at `offset` or above.

        Raise `ApiError` with CORRUPT_MESSAGE if the bytes that should hold it are not a batch. Batches after
        such bytes are found.
        """
        try:
            found = self._find(offset)
            if found is not None and found[1].last_offset_delta + 1 == found[1].record_count:
                return found
        except OffsetGap:
            pass
        except RecordError:
            # The index may be wrong, unless it was built from the log itself.
            if self.distrust_indexes():
                return self.find(offset)
        # Compaction leaves gaps between batches, inside them and after the last. So does damage to their offsets, which
        # must be told apart, or a reader would skip records without an error.
        return self._find_around_damage(offset)

    def _find_around_damage(self, offset: int) -> tuple[int, BatchHeader] | None:
        # Start one entry before the last that is not above the offset, because the batch of that one may be damaged.
        index = self.offset_index
        entry = index.find(offset) - 1
        position, expected_offset = 0, self.base_offset
        if entry >= 0:
            position = index.position(entry)
            expected_offset = index.offset(entry - 1) + 1 if entry > 0 else self.base_offset
        damage: Stretch | None = None
        for stretch in walk_stretches(self.file, position, self.size_bytes, expected_offset, self.base_offset):
            header = stretch.header
            if header is None or stretch.problem:
                damage = stretch
            elif header.last_offset >= offset:
                if damage is not None and damage.expected_offset <= offset < header.base_offset:
                    raise self._corrupt(offset, damage)
                return stretch.position, header
            else:
                damage = None
        if damage is not None:
            raise self._corrupt(offset, damage)
        return None

    def _corrupt(self, offset: int, damage: Stretch) -> ApiError:
        place = f"{self.path(LOG_SUFFIX)} at position {damage.position}"
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"cannot read offset {offset}: {place}: {damage.problem}")

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        index = self.offset_index
        entry = index.find(offset)
        if entry < 0:
            return find_batch(self.file, 0, self.size_bytes, offset, self.base_offset - 1)
        return find_batch(self.file, index.position(entry), self.size_bytes, offset, -1, index.offset(entry))

    def offset_above(self, position: int) -> int | None:
        """Return an offset that no batch before `position` reaches, or None if the index has none."""
        index = self.offset_index
        entry = index.find_position(position)
        return index.offset(entry) if entry < len(index) else None

    def _walk(self, position: int, chunk_bytes: int = LOOKUP_CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        return walk_headers(self.file, position, self.size_bytes, chunk_bytes)

    def headers_from(self, offset: int, chunk_bytes: int = LOOKUP_CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from the one that holds `offset` on."""
        found = self.find(offset)
        try:
            yield from self._walk(found[0] if found else self.size_bytes, chunk_bytes)
        except RecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.path(LOG_SUFFIX)}: {error}") from error

    def end_before(self, offset: int) -> tuple[int, int]:
        """Return the end position and end offset of the last batch that is wholly below `offset`.

        The next batch may begin later, if compaction removed batches.
        """
        found = self.find(offset)
        position = self.size_bytes if found is None else found[0]
        index, end_offset = self.offset_index, self.base_offset
        entry = index.find_position(position) - 1
        for place, header in self._walk(index.position(entry) if entry >= 0 else 0):
            if place >= position:
                break
            end_offset = header.next_offset
        return position, end_offset

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that reaches `offset`, and sync. Return the next offset."""
        position, next_offset = self.end_before(offset)
        if position == self.size_bytes:
            return next_offset
        offset_index, time_index = self.growing_indexes()
        self.file.truncate(position)
        self.size_bytes = position
        self.file.sync()
        self._synced_bytes = position
        offset_index.truncate_to(next_offset)
        time_index.truncate_to(next_offset)
        self.transaction_index.truncate_to(next_offset)
        self._unindexed_bytes = 0
        if position == 0:
            self._first_timestamp = None
        self._maximum = self._largest_timestamp(offset_index, time_index)
        return next_offset

    def _largest_timestamp(self, offset_index: OffsetIndex, time_index: TimeIndex) -> tuple[int, int]:
        maximum = time_index.last()
        entry = offset_index.find(maximum[1])
        for _, header in self._walk(offset_index.position(entry) if entry >= 0 else 0, SCAN_CHUNK_BYTES):
            if header.max_timestamp > maximum[0]:
                maximum = (header.max_timestamp, header.last_offset)
        return maximum

    def reset_indexes(self) -> None:
        """Set empty indexes, to be filled by `note_batch`."""
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._maximum = (-1, self.base_offset)
        self._first_timestamp = None
        self._unindexed_bytes = 0
        self._is_rebuilt = True

    def begin_scan(self) -> None:
        """Reset the segment to empty, to be filled by `note_batch` during a scan of the file."""
        self.size_bytes = self._synced_bytes = 0
        self.reset_indexes()

    def rebuild_indexes(self) -> tuple[AnyOffsetIndex, AnyTimeIndex]:
        """Build the indexes from the log. It was flushed and is trusted, except for bytes that are not batches."""
        file, size_bytes, next_offset = self.file, self.size_bytes, self.base_offset
        made = Segment(self._folder, self._directory, self.base_offset, 0, self._interval_bytes, self.created_ms)
        made.reset_indexes()
        try:
            for position, header in walk_headers(file, 0, size_bytes, SCAN_CHUNK_BYTES):
                if header.base_offset != next_offset or header.last_offset_delta + 1 != header.record_count:
                    raise CorruptBatch("offsets with gaps, which need a closer check")
                next_offset = header.next_offset
                made.note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
        except RecordError:
            made._index_around_damage(file, size_bytes)
        # A disk that rejects writes can still be read; the next start builds the indexes again.
        # Recovery will not scan this segment, so a half-written file must not remain.
        with passing_over_shortage():
            if not self.is_leaving and (not self.is_gone or self._folder.fs.exists(self.path(LOG_SUFFIX))):
                made.write_indexes(write_atomically)
        # Assigned together, because other threads may be searching.
        self._maximum, self._first_timestamp = made._maximum, made._first_timestamp
        self._unindexed_bytes = made._unindexed_bytes
        self._offset_index, self._time_index = indexes = made.offset_index, made.time_index
        self._is_rebuilt = True
        return indexes

    def _index_around_damage(self, file: File, size_bytes: int) -> None:
        self.reset_indexes()
        for stretch in walk_stretches(file, 0, size_bytes, self.base_offset, self.base_offset):
            if stretch.header is None:
                # Add an entry for the next batch, so that a lookup after the damage need not read it.
                self._unindexed_bytes = self._interval_bytes + 1
            else:
                header = stretch.header
                self.note_batch(stretch.position, header.size_bytes, header.last_offset, header.max_timestamp)

    def distrust_indexes(self) -> bool:
        """Rebuild indexes that contradict the log. Return False if they were built from the log already."""
        if not self._is_rebuilt:
            self.rebuild_indexes()
            return True
        return False

    def write_indexes(self, write: "Callable[[FileSystem, str, bytes], None] | None" = None) -> None:
        """Write the index files, with the largest timestamp as the last entry of the time index."""
        write = write or _write
        for suffix, data in self.encode_indexes().items():
            write(self._folder.fs, self.path(suffix), data)
        self.write_transaction_index(write)

    def encode_indexes(self) -> dict[str, bytes]:
        """Return the contents of the index files by suffix, except the transaction index."""
        offset_index, time_index = self.growing_indexes()
        time_index.append(*self.maximum)
        return {OFFSET_INDEX_SUFFIX: offset_index.encode(), TIME_INDEX_SUFFIX: time_index.encode()}

    def write_transaction_index(self, write: "Callable[[FileSystem, str, bytes], None] | None" = None) -> None:
        """Write the transaction index if it is loaded; without entries there is no file, as in Kafka."""
        index, fs, path = self._transaction_index, self._folder.fs, self.path(TRANSACTION_INDEX_SUFFIX)
        if index is not None and len(index):
            data = index.encode()
            # A power loss may take a file that is written again. Without it, no transaction counts as aborted.
            if fs.read_file(path) != data:
                (write or write_atomically)(fs, path, data)
        elif index is not None:
            fs.remove(path)

    def index_paths(self) -> list[str]:
        return [self.path(suffix) for suffix in INDEX_SUFFIXES]


def _write(fs: FileSystem, path: str, data: bytes) -> None:
    # Not over the old file: a search on another thread may use a mapping of its pages.
    fs.remove(path)
    fs.write_file(path, data)
