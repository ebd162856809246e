"""A piece of a segment file, found but not yet read."""

from typing import NamedTuple

from runnel.storage.error import StorageError
from runnel.storage.folder import Folder
from runnel.storage.fs import Buffer, File


class FileRange(NamedTuple):
    """Bytes of a segment that answer a read.

    It keeps its file open, so a segment may be deleted while somebody still reads from it.
    `read` may be called from any thread.
    """

    file: File | None
    position: int
    size_bytes: int
    folder: Folder | None = None

    def read(self) -> Buffer:
        """Read the bytes, waiting for the disk where it must. A disk that fails takes its folder offline."""
        if self.file is None:
            return b""
        try:
            return self.file.read_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def read_cached(self) -> Buffer | None:
        """Read the bytes if all of them are in the page cache, else return None at once."""
        if self.file is None:
            return b""
        try:
            return self.file.read_cached_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def _note(self, error: StorageError) -> None:
        if self.folder is not None:
            self.folder.note(error)


EMPTY_RANGE = FileRange(None, 0, 0)
