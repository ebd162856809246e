"""What a disk or an operating system did to us."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

_SHORTAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE})


class StorageError(Exception):
    """A file operation failed. The runtime answers KAFKA_STORAGE_ERROR for what it touched."""

    def __init__(self, path: str, cause: OSError, *, is_sync: bool = False) -> None:
        super().__init__(f"{path}: {cause.strerror or cause}")
        self.path = path
        self.cause = cause
        self.is_sync = is_sync

    @property
    def is_shortage(self) -> bool:
        """Whether the disk is merely full, read-only or out of descriptors: what it holds is still good.

        Any other failure, and any of an fsync, means that the disk cannot be believed any more, and
        takes its log folder offline.
        """
        return self.cause.errno in _SHORTAGE and not self.is_sync


@contextmanager
def passing_over_shortage() -> Iterator[None]:
    """Go on where a full or read-only disk refuses something that is only nice to have.

    Any other failure is raised: a failed fsync that nobody hears of may have dropped more than the
    file it was for.
    """
    try:
        yield
    except StorageError as error:
        if not error.is_shortage:
            raise
