"""The state that the logs of one log folder share: file system, disk failure, open and deleted files."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tailrace.storage.deletion import Deletions
from tailrace.storage.error import StorageError
from tailrace.storage.fs import FileSystem
from tailrace.storage.handle_pool import HandlePool
from tailrace.storage.unflushed import Unflushed

logger = logging.getLogger(__name__)


class Folder:
    """The state shared by all logs of one log folder. When the disk fails for one log, it fails for all.

    After a failed fsync the kernel has dropped the pages that it could not write and marked them
    clean, so a second fsync would succeed without having saved anything. The folder therefore stays
    offline until the process restarts and reads what is on the disk.
    """

    __slots__ = ("deletions", "failure", "fs", "handles", "on_failure", "path", "save_starts", "unflushed")

    def __init__(self, fs: FileSystem, path: str, handles: HandlePool | None = None) -> None:
        """Create the state of a folder. The folders of a broker share `handles`."""
        self.fs = fs
        self.path = path
        self.failure: StorageError | None = None
        # Called when the folder goes offline, on any thread.
        self.on_failure: Callable[[], object] = lambda: None
        # Writes the checkpoint of log start offsets, on any thread.
        self.save_starts: Callable[[], None] = lambda: None
        self.deletions = Deletions(fs)
        self.unflushed = Unflushed()
        self.handles = HandlePool() if handles is None else handles

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, error: StorageError) -> None:
        """Take the folder offline. Later failures do not replace the first one."""
        if self.failure is None:
            self.failure = error
            logger.error("log folder %s is offline until the broker restarts: %s", self.path, error)
            self.on_failure()

    def note(self, error: StorageError) -> None:
        """Take the folder offline unless the disk is only full, read-only or out of descriptors."""
        if not error.is_shortage:
            self.fail(error)

    @contextmanager
    def judging(self, *, is_fatal: bool = False) -> Iterator[None]:
        """Run a block that uses the files unless the folder is offline, and pass its failures to `note`.

        Set `is_fatal` for a block that must not stop half way, even if the disk is only full.
        """
        self.check()
        try:
            yield
        except StorageError as error:
            if is_fatal:
                self.fail(error)
            self.note(error)
            raise

    def check(self) -> None:
        """Raise the error that took the folder offline, if it is offline."""
        if self.failure is not None:
            raise StorageError(self.failure.path, self.failure.cause, is_sync=self.failure.is_sync)
