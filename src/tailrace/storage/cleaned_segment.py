"""Segments written by compaction next to the live ones, in files with the suffix `.cleaned`."""

from collections.abc import Iterable

from tailrace.base.limits import COMPACTION_SYNC_BYTES
from tailrace.records.batch import BatchHeader, Buffer, read_header
from tailrace.storage.folder import Folder
from tailrace.storage.fs import File, FileSystem
from tailrace.storage.log_config import LogConfig
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX
from tailrace.storage.segment.file import INDEX_SUFFIXES, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from tailrace.storage.segment.segment import Segment
from tailrace.storage.transaction_index import AbortedTransaction

CLEANED_SUFFIX = ".cleaned"
SEGMENT_BYTES_MAX = 2**31 - 1


class CleanedSegment:
    """A segment that compaction is writing. It buffers the log, because batches are many and small."""

    def __init__(self, folder: Folder, directory: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        self.segment = Segment(folder, directory, base_offset, 0, config.index_interval_bytes, created_ms)
        self.segment.reset_indexes()
        self.segment.reset_transaction_index()
        self._fs = folder.fs
        self._config = config
        self._file: File = self._fs.create(self._path(LOG_SUFFIX))
        self.buffer = bytearray()
        self._written_bytes = self._synced_bytes = 0
        # Index files of an earlier attempt would be mistaken for those of this one.
        for suffix in INDEX_SUFFIXES:
            self._fs.remove(self._path(suffix))

    def _path(self, suffix: str) -> str:
        return self.segment.path(suffix) + CLEANED_SUFFIX

    def takes(self, header: BatchHeader) -> bool:
        """Return whether the segment has room for a batch: for its bytes, its offsets and its index entries."""
        segment = self.segment
        return segment.size_bytes == 0 or (
            segment.size_bytes + header.size_bytes <= SEGMENT_BYTES_MAX
            and header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX
            and not segment.is_index_full(self._config.segment_index_bytes)
        )

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        self.buffer += batch
        self.segment.note_batch(self.segment.size_bytes, len(batch), header.last_offset, header.max_timestamp)

    def write(self) -> int:
        """Write the buffer to the file, without a sync at each call. Return the number of bytes written."""
        size_bytes = len(self.buffer)
        if size_bytes:
            self._file.write_at(self.buffer, self._written_bytes)
            self._written_bytes += size_bytes
            self.buffer = bytearray()
            # One large sync at the end would delay every other write to the disk.
            if self._written_bytes - self._synced_bytes >= COMPACTION_SYNC_BYTES:
                self._file.sync()
                self._synced_bytes = self._written_bytes
        return size_bytes

    def finish(self) -> Segment:
        """Write and sync all files. The caller syncs the folder."""
        self.write()
        self._file.sync()
        segment = self.segment
        indexes = segment.encode_indexes()
        if len(segment.transaction_index):
            indexes[TRANSACTION_INDEX_SUFFIX] = segment.transaction_index.encode()
        for suffix, data in indexes.items():
            self._fs.write_file(self._path(suffix), data)
            self._fs.sync_file(self._path(suffix))
        segment.adopt(self._file)
        return segment


class CleanedGroup:
    """The segments that replace a group: usually one, more if recompressed records do not fit into one."""

    def __init__(self, folder: Folder, directory: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        self._folder = folder
        self._directory = directory
        self._config = config
        self._created_ms = created_ms
        self._cleaned: list[CleanedSegment] = []
        self._begin(base_offset)

    def _begin(self, base_offset: int) -> None:
        self._last = CleanedSegment(self._folder, self._directory, base_offset, self._config, self._created_ms)
        self._cleaned.append(self._last)

    @property
    def buffered_bytes(self) -> int:
        return len(self._last.buffer)

    def append(self, batch: Buffer, aborted: Iterable[AbortedTransaction]) -> None:
        """Append a batch, and add the transactions that it aborts to the transaction index."""
        header = read_header(batch)
        if not self._last.takes(header):
            self._last.write()
            self._begin(header.base_offset)
        self._last.append(batch, header)
        for transaction in aborted:
            self._last.segment.transaction_index.append(transaction)

    def write(self) -> int:
        """Write the buffer to the file. Return the number of bytes written."""
        return self._last.write()

    def finish(self) -> tuple[Segment, ...]:
        """Write and sync all files and the folder, and return the segments."""
        segments = tuple(cleaned.finish() for cleaned in self._cleaned)
        self._folder.fs.sync_directory(self._directory)
        return segments

    def discard(self) -> None:
        for cleaned in self._cleaned:
            discard_cleaned(self._folder.fs, cleaned.segment)


def discard_cleaned(fs: FileSystem, segment: Segment) -> None:
    """Remove the files of a segment that will not be swapped in."""
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        fs.remove(segment.path(suffix) + CLEANED_SUFFIX)
