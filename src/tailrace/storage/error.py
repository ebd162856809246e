"""The error for failures of the disk or the operating system."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

_SHORTAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE})


class StorageError(Exception):
    """A file operation failed. The broker answers requests that touch the file with KAFKA_STORAGE_ERROR."""

    def __init__(self, path: str, cause: OSError, *, is_sync: bool = False) -> None:
        super().__init__(f"{path}: {cause.strerror or cause}")
        self.path = path
        self.cause = cause
        self.is_sync = is_sync

    @property
    def is_shortage(self) -> bool:
        """Whether the disk is only full, read-only or out of descriptors, so that its contents are still valid.

        Any other failure, and every failure of an fsync, means that the disk cannot be trusted, and
        takes its log folder offline.
        """
        return self.cause.errno in _SHORTAGE and not self.is_sync


@contextmanager
def passing_over_shortage() -> Iterator[None]:
    """Ignore the failure of an optional write on a full or read-only disk.

    Any other failure is raised: a failed fsync that is ignored may have dropped more than the data
    of that file.
    """
    try:
        yield
    except StorageError as error:
        if not error.is_shortage:
            raise
