"""A piece of a segment file, found but not yet read."""

from typing import NamedTuple

from runnel.storage.fs import Buffer, File


class FileRange(NamedTuple):
    """Bytes of a segment that answer a read.

    It keeps its file open, so a segment may be deleted while somebody still reads from it.
    `read` may be called from any thread.
    """

    file: File | None
    position: int
    size_bytes: int

    def read(self) -> Buffer:
        """Read the bytes, waiting for the disk where it must."""
        if self.file is None:
            return b""
        return self.file.read_at(self.position, self.size_bytes)

    def read_cached(self) -> Buffer | None:
        """Read the bytes if all of them are in the page cache, else return None at once."""
        if self.file is None:
            return b""
        return self.file.read_cached_at(self.position, self.size_bytes)


EMPTY_RANGE = FileRange(None, 0, 0)
