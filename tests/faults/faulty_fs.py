"""The real file system, with faults that a test switches on for one folder."""

from __future__ import annotations

import os

from tailrace.storage.error import StorageError
from tailrace.storage.fs import Buffer, DirectoryEntry, File, Mapping, RealFileSystem

WRITES = frozenset({"write_at", "truncate", "create", "write_file", "make_directory", "rename", "remove"})
SYNCS = frozenset({"sync", "sync_file", "sync_directory"})
READS = frozenset({"read_at", "read_cached_at", "open", "read_file", "map_file"})


class FaultyFile:
    """A file whose file system may fail it."""

    def __init__(self, fs: FaultyFileSystem, file: File) -> None:
        self.path = file.path
        self._fs = fs
        self._file = file

    def write_at(self, data: Buffer, position: int) -> None:
        try:
            self._fs.enter("write_at", self.path)
        except StorageError:
            # A full disk takes what still fits.
            self._file.write_at(memoryview(data)[: len(data) // 2], position)
            raise
        self._file.write_at(data, position)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._fs.enter("read_at", self.path)
        return self._file.read_at(position, size_bytes)

    def read_cached_at(self, position: int, size_bytes: int) -> Buffer | None:
        self._fs.enter("read_cached_at", self.path)
        return self._file.read_cached_at(position, size_bytes)

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def truncate(self, size_bytes: int) -> None:
        self._fs.enter("truncate", self.path)
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._fs.enter("sync", self.path)
        self._file.sync()


class FaultyFileSystem(RealFileSystem):
    """Fails the operations of `failing` below `folder` with `errno`, from any thread, until told to stop."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._failing: frozenset[str] = frozenset()
        self._errno = 0

    def fail(self, errno: int, failing: frozenset[str] = WRITES) -> None:
        self._errno, self._failing = errno, failing

    def heal(self) -> None:
        self._failing = frozenset()

    def enter(self, operation: str, path: str) -> None:
        if operation in self._failing and path.startswith(self._folder):
            error = OSError(self._errno, os.strerror(self._errno))
            raise StorageError(path, error, is_sync=operation in SYNCS)

    def open(self, path: str) -> File:
        self.enter("open", path)
        return FaultyFile(self, super().open(path))

    def create(self, path: str) -> File:
        self.enter("create", path)
        return FaultyFile(self, super().create(path))

    def read_file(self, path: str) -> bytes | None:
        self.enter("read_file", path)
        return super().read_file(path)

    def map_file(self, path: str) -> Mapping | None:
        self.enter("map_file", path)
        return super().map_file(path)

    def write_file(self, path: str, data: Buffer) -> None:
        self.enter("write_file", path)
        super().write_file(path, data)

    def sync_file(self, path: str) -> None:
        self.enter("sync_file", path)
        super().sync_file(path)

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.enter("rename", source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.enter("remove", path)
        super().remove(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        self.enter("list_directory", path)
        return super().list_directory(path)
