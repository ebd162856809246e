"""The files of a segment, opened on demand and synced before they are closed.

A segment that is removed from its log keeps its files for a while under other names, so that
readers can still open them. Readers and the deletion run on different threads without waiting for
each other: a reader tries both names, and finds the file already open if it has neither.
"""

import errno
import os
from contextlib import suppress
from functools import partial

from tailrace.storage.error import StorageError, passing_over_shortage
from tailrace.storage.folder import Folder
from tailrace.storage.fs import File
from tailrace.storage.handle_pool import Job

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
# The suffix of files that are to be removed after a delay.
DELETED_SUFFIX = ".deleted"


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Return Kafka's name for a file of a segment: the base offset in 20 digits."""
    return os.path.join(directory, f"{base_offset:020d}{suffix}")


class SegmentFile:
    """A file of batches with a name, a size, and possibly a descriptor."""

    __slots__ = (
        "_directory",
        "_file",
        "_folder",
        "_synced_bytes",
        "base_offset",
        "is_gone",
        "is_leaving",
        "is_used",
        "size_bytes",
    )

    def __init__(self, folder: Folder, directory: str, base_offset: int, size_bytes: int) -> None:
        self._folder = folder
        self._directory = directory
        self._file: File | None = None
        # How many bytes of the file are on the disk.
        self._synced_bytes = size_bytes
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        # Whether the files are deleted or about to be, so that a missing file is not a failure.
        self.is_gone = False
        # Whether the segment was removed from its log, so that its files may have another name.
        self.is_leaving = False
        # Whether the file was used since the handle pool last considered it.
        self.is_used = False

    def path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix)

    @property
    def file(self) -> File:
        """The open file."""
        self.is_used = True
        file = self._file
        return self.open() if file is None else file

    def open(self) -> File:
        """Open the file; the pool closes others if too many are open."""
        file = self._file = self._open()
        self.count_handles()
        return file

    def _open(self) -> File:
        fs, path = self._folder.fs, self.path(LOG_SUFFIX)
        if not self.is_leaving:
            try:
                return fs.open(path)
            except StorageError:
                # The segment may have been removed from the log just now.
                if not self.is_leaving:
                    raise
        for name in (path + DELETED_SUFFIX, path, path + DELETED_SUFFIX):
            try:
                file = fs.open(name)
            except StorageError as error:
                if error.cause.errno != errno.ENOENT:
                    raise
                failure = error
            else:
                # A file kept by `keep` is certainly the right one; another segment may have the name by now.
                return file if self._file is None else self._file
        if self._file is None:
            raise failure
        return self._file

    def adopt(self, file: File) -> None:
        """Use a synced file that still has another name. Call `forget` when it has the right name."""
        self._file = file
        self._synced_bytes = self.size_bytes

    @property
    def handle_count(self) -> int:
        """The number of open descriptors."""
        return int(self._file is not None)

    def count_handles(self) -> None:
        """Report the number of open descriptors to the pool."""
        count = self.handle_count
        if count and not self.is_gone:
            self._folder.handles.add(self, count)
        else:
            self._folder.handles.discard(self)

    def forget(self) -> Job | None:
        """Drop the file until it is used again."""
        file, self._file = self._file, None
        return None if file is None or not self.is_unsynced else partial(self._sync_and_close, file, self.size_bytes)

    def release(self) -> None:
        """Leave the handle pool. Readers that hold this segment keep its open file."""
        self.is_gone = True
        self._folder.handles.discard(self)

    def close(self) -> None:
        """Leave the handle pool and drop the file. A reader that has located bytes in it opens it again."""
        self.release()
        self._file = None

    def keep(self) -> None:
        """Hold the file open, because its name is being removed and readers may still need it."""
        self.release()
        with suppress(StorageError):
            if self._file is None:
                self._file = self._open()

    @property
    def is_unsynced(self) -> bool:
        """Whether a power loss could lose bytes of the file."""
        return self.size_bytes > self._synced_bytes and not self.is_gone

    def sync(self) -> None:
        """Sync the batches appended so far, on any thread."""
        if not self.is_unsynced:
            return
        try:
            self._sync(self.file, self.size_bytes)
        except StorageError:
            if not self.is_gone:
                raise

    def _sync(self, file: File, size_bytes: int) -> None:
        file.sync()
        # A truncation may have come in between.
        if self.size_bytes >= size_bytes:
            self._synced_bytes = max(self._synced_bytes, size_bytes)

    def _sync_and_close(self, file: File, size_bytes: int) -> None:
        try:
            self._sync(file, size_bytes)
        except StorageError as error:
            if not self.is_gone:
                self._folder.fail(error)

    # Deletion

    def delete(self, *, is_final: bool = False) -> None:
        """Remove the files. Readers that hold the segment can still read it.

        With `is_final` the folder is synced, so that no power loss brings the log file back. If compaction leaves
        gaps, recovery could not tell that the file does not belong there.
        """
        self.keep()
        # Remove the log first: the next start removes an index without a log, but would take a log
        # without an index for a segment.
        try:
            self._folder.fs.remove(self.path(LOG_SUFFIX))
        except StorageError:
            # The file remains, and has to be synced and closed as before.
            self.is_gone = False
            self.count_handles()
            raise
        with passing_over_shortage():
            for suffix in INDEX_SUFFIXES:
                self._folder.fs.remove(self.path(suffix))
        if is_final:
            self._folder.fs.sync_directory(self._directory)

    def move_away(self) -> bool:
        """Rename the files to `.deleted`. Return False if a full disk prevented that and they were removed instead."""
        fs, path = self._folder.fs, self.path(LOG_SUFFIX)
        try:
            fs.rename(path, path + DELETED_SUFFIX)
        except StorageError as error:
            if not error.is_shortage:
                raise
            self.delete()
            return False
        # The next start removes an index without a log.
        with passing_over_shortage():
            for path in map(self.path, INDEX_SUFFIXES):
                if fs.exists(path):
                    fs.rename(path, path + DELETED_SUFFIX)
        return True

    def deleted_paths(self) -> list[str]:
        """Return the paths of the files after `move_away`, the log first."""
        return [self.path(suffix) + DELETED_SUFFIX for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES)]
