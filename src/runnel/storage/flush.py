"""Syncing a log, as a value that a worker thread can be given."""

from typing import NamedTuple

from runnel.storage.error import StorageError
from runnel.storage.folder import Folder
from runnel.storage.segment import Segment


class Flush(NamedTuple):
    """Everything that has to be synced before a log is durable up to an offset."""

    folder: Folder
    directory: str
    segments: tuple[Segment, ...]
    paths: tuple[str, ...]
    end_offset: int
    sealed_offset: int  # below, index files are synced as well
    truncation_count: int
    name_count: int
    has_new_names: bool = True

    def run(self) -> None:
        """Sync it, on any thread. A failure takes the log folder offline for good."""
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
