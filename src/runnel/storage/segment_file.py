"""A segment's files: the log is opened when somebody needs it and synced before it is closed; all go together.

A segment that leaves its log keeps its files for a while under other names, so that those who
still read from it can open them. Readers and whoever renames and removes are in different
threads, and nobody waits for the other: a reader looks under both names, and finds the file
open if it is under neither.
"""

import errno
import os
from contextlib import suppress
from functools import partial

from runnel.storage.error import StorageError, passing_over_shortage
from runnel.storage.folder import Folder
from runnel.storage.fs import File
from runnel.storage.handle_pool import Job

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
# Behind the names of files that have left their log and are yet to be removed.
DELETED_SUFFIX = ".deleted"


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    """Kafka's name for a file of a segment: the base offset in 20 digits."""
    return os.path.join(directory, f"{base_offset:020d}{suffix}")


class SegmentFile:
    """A file of batches that has a name, a size, and perhaps a descriptor."""

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
        # How much of the file is known to be on the disk.
        self._synced_bytes = size_bytes
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        # Whether the files are deleted or about to be, so that not finding them is no failure.
        self.is_gone = False
        # Whether the segment has left its log, so that its files may have another name.
        self.is_leaving = False
        # Whether somebody needed the file since the pool of handles last looked.
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
        """Open the file, and let the pool close others if there are too many."""
        file = self._file = self._open()
        self.count_handles()
        return file

    def _open(self) -> File:
        fs, path = self._folder.fs, self.path(LOG_SUFFIX)
        if not self.is_leaving:
            try:
                return fs.open(path)
            except StorageError:
                # Perhaps it has left just now.
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
                # One that was kept is certainly the right one; another segment may have the name by now.
                return file if self._file is None else self._file
        if self._file is None:
            raise failure
        return self._file

    def adopt(self, file: File) -> None:
        """Be in a file that is synced and has another name as yet; `forget` it when it has the right one."""
        self._file = file
        self._synced_bytes = self.size_bytes

    @property
    def handle_count(self) -> int:
        """How many descriptors this takes."""
        return int(self._file is not None)

    def count_handles(self) -> None:
        """Tell the pool how many descriptors this takes now."""
        count = self.handle_count
        if count and not self.is_gone:
            self._folder.handles.add(self, count)
        else:
            self._folder.handles.discard(self)

    def forget(self) -> Job | None:
        """Let go of the file until it is wanted again."""
        file, self._file = self._file, None
        return None if file is None or not self.is_unsynced else partial(self._sync_and_close, file, self.size_bytes)

    def release(self) -> None:
        """Be in nobody's charge any more. An open file stays with those who hold this segment."""
        self.is_gone = True
        self._folder.handles.discard(self)

    def close(self) -> None:
        """Give the file back. Whoever found something in it opens it again."""
        self.release()
        self._file = None

    def keep(self) -> None:
        """Hold on to the file, because its name goes away; whoever found something in it may yet read it."""
        self.release()
        with suppress(StorageError):
            if self._file is None:
                self._file = self._open()

    @property
    def is_unsynced(self) -> bool:
        """Whether the file has bytes that a power loss could take."""
        return self.size_bytes > self._synced_bytes and not self.is_gone

    def sync(self) -> None:
        """Make the batches so far survive a power loss, on any thread."""
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

    # The end

    def delete(self, *, is_final: bool = False) -> None:
        """Remove the files. Whoever still reads keeps the bytes until it is done.

        With `is_final` no power loss brings the log back. Where compaction leaves gaps nobody could tell that it
        does not belong there.
        """
        self.keep()
        # The log goes first: an index without a log is dropped by the next start, while a log
        # without an index would be taken for a segment.
        try:
            self._folder.fs.remove(self.path(LOG_SUFFIX))
        except StorageError:
            # It stays where it is, and is to be synced and closed as before.
            self.is_gone = False
            self.count_handles()
            raise
        with passing_over_shortage():
            for suffix in INDEX_SUFFIXES:
                self._folder.fs.remove(self.path(suffix))
        if is_final:
            self._folder.fs.sync_directory(self._directory)

    def move_away(self) -> bool:
        """Give the files the names of deleted ones. Returns False if a full disk refused that and they are removed."""
        fs, path = self._folder.fs, self.path(LOG_SUFFIX)
        try:
            fs.rename(path, path + DELETED_SUFFIX)
        except StorageError as error:
            if not error.is_shortage:
                raise
            self.delete()
            return False
        # An index without a log is dropped by the next start.
        with passing_over_shortage():
            for path in map(self.path, INDEX_SUFFIXES):
                if fs.exists(path):
                    fs.rename(path, path + DELETED_SUFFIX)
        return True

    def deleted_paths(self) -> list[str]:
        """The names that the files have after `move_away`, that of the log first."""
        return [self.path(suffix) + DELETED_SUFFIX for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES)]
