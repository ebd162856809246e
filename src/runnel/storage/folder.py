"""What the logs of one log folder share: the file system, whether it can be believed, open and deleted files."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runnel.storage.deletion import Deletions
from runnel.storage.error import StorageError
from runnel.storage.fs import FileSystem
from runnel.storage.handle_pool import HandlePool
from runnel.storage.unflushed import Unflushed

logger = logging.getLogger(__name__)


class Folder:
    """Shared by all logs of one log folder: when the disk lies to one of them, all of them stop.

    After a failed fsync the kernel has already dropped the pages it could not write and marks
    them clean, so a second fsync would succeed without having saved anything. The folder
    therefore stays offline until the process starts again and reads what is really there.
    """

    __slots__ = ("deletions", "failure", "fs", "handles", "on_failure", "path", "unflushed")

    def __init__(self, fs: FileSystem, path: str, handles: HandlePool | None = None) -> None:
        """The folders of a broker share their handles."""
        self.fs = fs
        self.path = path
        self.failure: StorageError | None = None
        # Called when the folder goes offline, on any thread.
        self.on_failure: Callable[[], object] = lambda: None
        self.deletions = Deletions(fs)
        self.unflushed = Unflushed()
        self.handles = HandlePool() if handles is None else handles

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    def fail(self, error: StorageError) -> None:
        """Take the folder offline. The first failure is the one to tell."""
        if self.failure is None:
            self.failure = error
            logger.error("%s is offline until the broker is started again: %s", self.path, error)
            self.on_failure()

    def note(self, error: StorageError) -> None:
        """Judge a failure: a full disk passes, a broken one does not."""
        if not error.is_shortage:
            self.fail(error)

    @contextmanager
    def judging(self, *, is_fatal: bool = False) -> Iterator[None]:
        """Do something with the files unless the folder is offline, and note what fails.

        `is_fatal` is for what cannot be left half way, even if the disk is merely full.
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
        """Raise the failure that took the folder offline, if one did."""
        if self.failure is not None:
            raise StorageError(self.failure.path, self.failure.cause, is_sync=self.failure.is_sync)
