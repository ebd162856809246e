"""The file system interface of storage, which tests and the simulator replace.

Every operation succeeds completely or raises `StorageError`. Writes go straight to the kernel:
after `write_at` returns, the data survives a crash of the process, and after `sync` returns, it
survives a crash of the machine. A created, renamed or removed name survives a crash of the
machine only after `sync_directory` of its folder.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.storage.error import StorageError

Buffer: TypeAlias = bytes | bytearray | memoryview
Mapping: TypeAlias = bytes | mmap.mmap


class DirectoryEntry(NamedTuple):
    """A name in a folder. The size of a folder is 0."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_ms: int


class File(Protocol):
    """An open file. It closes when the last reference goes, so no reader loses it during a read."""

    @property
    def path(self) -> str: ...

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data`. On failure, any part of it may be in the file."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read `size_bytes`, or fewer if the file ends before that."""

    def read_cached_at(self, position: int, size_bytes: int) -> Buffer | None:
        """Read like `read_at` if all bytes are in the page cache; otherwise return None."""

    def size_bytes(self) -> int: ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None: ...


class FileSystem(Protocol):
    """The file operations that storage uses."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing."""

    def create(self, path: str) -> File:
        """Open an empty file, truncating an existing one."""

    def read_file(self, path: str) -> bytes | None:
        """Return the whole file, or None if it does not exist."""

    def map_file(self, path: str) -> Mapping | None:
        """Return the whole file, of which only the accessed pages are read, or None if it does not exist.

        A mapping uses a descriptor until it is dropped. The file must not be truncated meanwhile: access
        to a page that is gone kills the process. A file of at most one page is read instead.
        """

    def write_file(self, path: str, data: Buffer) -> None:
        """Replace the contents of a file, neither atomically nor with a sync."""

    def sync_file(self, path: str) -> None:
        """Sync a file, which need not be open. Do nothing if it does not exist."""

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[DirectoryEntry]: ...

    def make_directory(self, path: str) -> None:
        """Create the folder and its missing parents."""

    def sync_directory(self, path: str) -> None:
        """Sync the names in a folder. Do nothing if it does not exist."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing an existing one, or rename a folder."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty folder if it exists."""

    def lock(self, path: str) -> object:
        """Lock a file against other processes until the returned object is dropped.

        Raise `StorageError` with EAGAIN if another process holds the lock.
        """


def write_atomically(fs: FileSystem, path: str, data: Buffer) -> None:
    """Replace a file so that a crash leaves either the old or the new one, complete and synced."""
    temporary = f"{path}.tmp"
    fs.write_file(temporary, data)
    fs.sync_file(temporary)
    fs.rename(temporary, path)
    fs.sync_directory(os.path.dirname(path))


@contextmanager
def _wrapped(path: str, *, is_sync: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(path, error, is_sync=is_sync) from error


_sync_data = getattr(os, "fdatasync", os.fsync)
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)


class RealFile:
    """An unbuffered file descriptor."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, flags: int) -> None:
        self.descriptor = -1
        self.path = path
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        # There is no close(): a reader in another thread would then read from the next file
        # that gets the same descriptor. Dropping the last reference closes it.
        if self.descriptor >= 0:
            with suppress(OSError):
                os.close(self.descriptor)

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            written = os.pwrite(self.descriptor, data, position)
            if written != len(data):
                self._write_rest(memoryview(data)[written:], position + written)
        except OSError as error:
            raise StorageError(self.path, error) from error

    def _write_rest(self, data: memoryview, position: int) -> None:
        while len(data) > 0:
            written = os.pwrite(self.descriptor, data, position)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[written:]
            position += written

    def read_at(self, position: int, size_bytes: int) -> bytes:
        try:
            data = os.pread(self.descriptor, size_bytes, position)
            # The kernel reads at most 2 GiB at once, and a signal may cut a read short.
            while len(data) < size_bytes:
                more = os.pread(self.descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise StorageError(self.path, error) from error
        return data

    if _NO_WAIT:

        def read_cached_at(self, position: int, size_bytes: int) -> Buffer | None:
            data = bytearray(size_bytes)
            try:
                count = os.preadv(self.descriptor, [data], position, _NO_WAIT)
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    return None
                if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                    return self.read_at(position, size_bytes)
                raise StorageError(self.path, error) from error
            return data if count == size_bytes else None

    else:

        def read_cached_at(self, position: int, size_bytes: int) -> Buffer | None:
            return self.read_at(position, size_bytes)

    def size_bytes(self) -> int:
        with _wrapped(self.path):
            return os.fstat(self.descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        with _wrapped(self.path):
            os.ftruncate(self.descriptor, size_bytes)

    def sync(self) -> None:
        with _wrapped(self.path, is_sync=True):
            _sync_data(self.descriptor)


class RealFileSystem:
    """The file system of the machine."""

    def open(self, path: str) -> File:
        with _wrapped(path):
            return RealFile(path, os.O_RDWR)

    def create(self, path: str) -> File:
        with _wrapped(path):
            return RealFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def read_file(self, path: str) -> bytes | None:
        try:
            with open(path, "rb", buffering=0) as file:
                return file.readall()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(path, error) from error

    def map_file(self, path: str) -> Mapping | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(path, error) from error
        try:
            with _wrapped(path):
                return _map(descriptor)
        finally:
            os.close(descriptor)

    def write_file(self, path: str, data: Buffer) -> None:
        self.create(path).write_at(data, 0)

    def sync_file(self, path: str) -> None:
        self._sync(path, 0)

    def _sync(self, path: str, flags: int) -> None:
        try:
            with _wrapped(path):
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
        except StorageError as error:
            if error.cause.errno == errno.ENOENT:
                return
            raise
        try:
            with _wrapped(path, is_sync=True):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        with _wrapped(path):
            try:
                os.stat(path)
            except FileNotFoundError:
                return False
            return True

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        with _wrapped(path), os.scandir(path) as entries:
            return [found for entry in entries if (found := _entry(entry)) is not None]

    def make_directory(self, path: str) -> None:
        with _wrapped(path):
            os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        self._sync(path, os.O_DIRECTORY)

    def rename(self, source: str, target: str) -> None:
        with _wrapped(source):
            os.replace(source, target)

    def remove(self, path: str) -> None:
        with _wrapped(path), suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        with _wrapped(path), suppress(FileNotFoundError):
            os.rmdir(path)

    def lock(self, path: str) -> object:
        with _wrapped(path):
            file = RealFile(path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file


class ReadOnlyFileSystem(RealFileSystem):
    """The file system of the machine, with files opened for reading only, so that read permission is enough."""

    def open(self, path: str) -> File:
        with _wrapped(path):
            return RealFile(path, os.O_RDONLY)


def _map(descriptor: int) -> Mapping:
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes > mmap.PAGESIZE:
        try:
            mapping = mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)
        except OSError as error:
            # The kernel limits the mappings of a process; beyond the limit, read the file.
            if error.errno != errno.ENOMEM:
                raise
        else:
            # A search jumps about, so pages read ahead would not be used.
            mapping.madvise(mmap.MADV_RANDOM)
            return mapping
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readall()


def _entry(entry: "os.DirEntry[str]") -> DirectoryEntry | None:
    if entry.is_dir(follow_symlinks=False):
        return DirectoryEntry(entry.name, True, 0, 0)
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None  # removed since the name was read
    return DirectoryEntry(entry.name, False, status.st_size, status.st_mtime_ns // 1_000_000)
