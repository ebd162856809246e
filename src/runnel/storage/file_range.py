"""A piece of a segment file, found but not yet read."""

from typing import NamedTuple, Protocol

from runnel.storage.error import StorageError
from runnel.storage.folder import Folder
from runnel.storage.fs import Buffer, File


class Source(Protocol):
    """A segment, which opens its file when somebody wants to read from it."""

    @property
    def file(self) -> File: ...

    @property
    def is_gone(self) -> bool: ...


class FileRange(NamedTuple):
    """Bytes of a segment that answer a read.

    It keeps its segment, which keeps its file when it is deleted while somebody still reads from
    it. `read` may be called from any thread.
    """

    source: Source | None
    position: int
    size_bytes: int
    folder: Folder | None = None

    def read(self) -> Buffer:
        """Read the bytes, waiting for the disk where it must. A disk that fails takes its folder offline."""
        if self.source is None:
            return b""
        try:
            return self.source.file.read_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def read_cached(self) -> Buffer | None:
        """Read the bytes if all of them are in the page cache, else return None at once."""
        if self.source is None:
            return b""
        try:
            return self.source.file.read_cached_at(self.position, self.size_bytes)
        except StorageError as error:
            self._note(error)
            raise

    def _note(self, error: StorageError) -> None:
        # The files of a deleted partition are gone, and that is nobody's failure.
        if self.folder is not None and self.source is not None and not self.source.is_gone:
            self.folder.note(error)


EMPTY_RANGE = FileRange(None, 0, 0)
