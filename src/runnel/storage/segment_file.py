"""A segment's file: opened when somebody needs it, synced before it is closed."""

import os
from contextlib import suppress
from functools import partial

from runnel.storage.error import StorageError
from runnel.storage.folder import Folder
from runnel.storage.fs import File
from runnel.storage.handle_pool import Job

LOG_SUFFIX = ".log"


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
        file = self._file = self._folder.fs.open(self.path(LOG_SUFFIX))
        self.count_handles()
        return file

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
                self._file = self._folder.fs.open(self.path(LOG_SUFFIX))

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
