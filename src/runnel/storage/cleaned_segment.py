"""Segments that compaction writes beside those in use: files with the suffix `.cleaned`."""

from collections.abc import Iterable

from runnel.base.limits import COMPACTION_SYNC_BYTES
from runnel.records.batch import BatchHeader, Buffer, read_header
from runnel.storage.folder import Folder
from runnel.storage.fs import File, FileSystem
from runnel.storage.log_config import LogConfig
from runnel.storage.offset_index import RELATIVE_OFFSET_MAX
from runnel.storage.segment import Segment
from runnel.storage.segment_file import INDEX_SUFFIXES, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from runnel.storage.transaction_index import AbortedTransaction

CLEANED_SUFFIX = ".cleaned"
SEGMENT_BYTES_MAX = 2**31 - 1


class CleanedSegment:
    """A segment that is being written. Its log is buffered, because batches are many and small."""

    def __init__(self, folder: Folder, directory: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        self.segment = Segment(folder, directory, base_offset, 0, config.index_interval_bytes, created_ms)
        self.segment.reset_indexes()
        self.segment.reset_transaction_index()
        self._fs = folder.fs
        self._config = config
        self._file: File = self._fs.create(self._path(LOG_SUFFIX))
        self.buffer = bytearray()
        self._written_bytes = self._synced_bytes = 0
        # Files of an earlier attempt would be taken for this one's.
        for suffix in INDEX_SUFFIXES:
            self._fs.remove(self._path(suffix))

    def _path(self, suffix: str) -> str:
        return self.segment.path(suffix) + CLEANED_SUFFIX

    def takes(self, header: BatchHeader) -> bool:
        """Whether there is room for a batch: for its bytes, its offsets and its index entries."""
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
        """Hand what is buffered to the kernel. Returns how many bytes."""
        size_bytes = len(self.buffer)
        if size_bytes:
            self._file.write_at(self.buffer, self._written_bytes)
            self._written_bytes += size_bytes
            self.buffer = bytearray()
            # One large sync at the end would make everybody who writes to the disk wait for it.
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
    """What is left of a group of segments: mostly one segment, more if recompressed records do not fit into one."""

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
        """Write a batch, and take the transactions that it aborts into the index."""
        header = read_header(batch)
        if not self._last.takes(header):
            self._last.write()
            self._begin(header.base_offset)
        self._last.append(batch, header)
        for transaction in aborted:
            self._last.segment.transaction_index.append(transaction)

    def write(self) -> int:
        """Hand what is buffered to the kernel. Returns how many bytes."""
        return self._last.write()

    def finish(self) -> tuple[Segment, ...]:
        """Sync everything."""
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
