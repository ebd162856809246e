"""A byte range of a segment file, located but not yet read."""

from typing import NamedTuple, Protocol

from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.fs import Buffer, File


class Source(Protocol):
    """A segment, which opens its file on demand."""

    @property
    def file(self) -> File: ...

    @property
    def is_gone(self) -> bool: ...


class FileRange(NamedTuple):
    """Bytes of a segment that answer a read.

    It holds its segment, and the segment holds its file if that is deleted during a read. `read` may be
    called from any thread.
    """

    source: Source | None
    position: int
    size_bytes: int
    folder: Folder | None = None

    def read(self) -> Buffer:
        """Read the bytes, waiting for the disk if necessary. A disk failure takes the folder offline."""
        if self.source is None:
            return b""
        try:
            return self.source.file.read_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def read_cached(self) -> Buffer | None:
        """Read the bytes if all of them are in the page cache; otherwise return None at once."""
        if self.source is None:
            return b""
        try:
            return self.source.file.read_cached_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def _note(self, error: StorageError) -> None:
        # The files of a deleted partition are gone, which is not a disk failure.
        if self.folder is not None and self.source is not None and not self.source.is_gone:
            self.folder.note(error)


EMPTY_RANGE = FileRange(None, 0, 0)
