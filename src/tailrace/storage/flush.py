"""A flush of a log, as a value that a worker thread can run."""

from typing import NamedTuple

from tailrace.storage.error import StorageError
from tailrace.storage.folder import Folder
from tailrace.storage.segment.segment import Segment


class Flush(NamedTuple):
    """Everything that must be synced to make a log durable up to an offset."""

    folder: Folder
    directory: str
    segments: tuple[Segment, ...]
    paths: tuple[str, ...]
    end_offset: int
    sealed_offset: int  # below this offset, index files are synced as well
    truncation_count: int
    name_count: int
    has_new_names: bool = True

    def run(self) -> None:
        """Sync the files, on any thread. A failure takes the log folder offline until the broker restarts."""
        self.folder.check()
        try:
            for segment in self.segments:
                segment.sync()
            for path in self.paths:
                self.folder.fs.sync_file(path)
            if self.has_new_names:
                self.folder.fs.sync_directory(self.directory)
        except StorageError as error:
            self.folder.fail(error)
            raise
