"""A file system in memory that fails and crashes on command, for tests and the simulator.

It separates what a process wrote from what would survive a power loss. `kill` ends the process:
everything written remains. `lose_power` ends the machine: an arbitrary part of the unsynced data
remains, as `memory_node` describes.

A hook sees every call before it happens and may make it fail or crash the process there. A failing
write leaves an arbitrary prefix of its bytes, and a failing sync drops the data that it could not
write.
"""

import errno
import os
import weakref
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from tailrace.storage.error import StorageError
from tailrace.storage.fs import Buffer, DirectoryEntry, File, Mapping
from tailrace.storage.memory_node import MemoryContent, MemoryNames, MemoryNode, contents


class Crash(BaseException):
    """The process died in the middle of a file operation."""


Hook: TypeAlias = Callable[[int, str, str], OSError | Crash | None]


class _Lock:
    """A lock, held as long as it is referenced."""


class MemoryFile:
    """A handle on a file, which stays valid after the name is removed."""

    def __init__(self, fs: "MemoryFileSystem", path: str, content: MemoryContent) -> None:
        self.path = path
        self._fs = fs
        self._content = content

    def write_at(self, data: Buffer, position: int) -> None:
        self._fs.write("write_at", self.path, self._content, position, bytes(data))

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._fs.enter("read_at", self.path)
        self._fs.bytes_read += size_bytes
        return bytes(self._content.data[position : position + size_bytes])

    def read_cached_at(self, position: int, size_bytes: int) -> Buffer | None:
        self._fs.enter("read_cached_at", self.path)
        if self._fs.is_cold:
            return None
        return bytes(self._content.data[position : position + size_bytes])

    def size_bytes(self) -> int:
        self._fs.enter("size_bytes", self.path)
        return len(self._content.data)

    def truncate(self, size_bytes: int) -> None:
        self._fs.enter("truncate", self.path)
        self._content.truncate(size_bytes)

    def sync(self) -> None:
        self._fs.sync("sync", self.path, self._content)


class MemoryFileSystem:
    """Files and folders in memory. `calls` counts (operation, name of the file)."""

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or Random(0)
        self.hook: Hook | None = None
        self.capacity_bytes: int | None = None
        self.is_spared: Callable[[], bool] = lambda: False  # whether there is room in spite of the capacity
        self.is_cold = False
        self.call_count = 0
        self.bytes_read = 0
        self.calls: Counter[tuple[str, str]] = Counter()
        self._root = MemoryNames()
        self._is_dead = False
        self._locks: dict[str, weakref.ref[_Lock]] = {}

    # Controls for tests

    def kill(self) -> None:
        """End the process while the machine runs on: everything written remains, synced or not.

        Only data that a failed sync did not write is lost, since no pages in memory hold it.
        """
        self._root.evict()
        self._restart()

    def _restart(self) -> None:
        self.hook = None
        self._is_dead = False
        self._locks = {}
        self.call_count = 0
        self.calls = Counter()

    def lose_power(self) -> None:
        """End the machine: an arbitrary part of the unsynced data remains."""
        self._restart()
        self._root.lose_power(self.random)

    def enter(self, operation: str, path: str) -> None:
        """Count a call and raise the error that the hook returns for it."""
        error = self._decide(operation, path)
        if error is not None:
            raise error

    def _decide(self, operation: str, path: str) -> Exception | Crash | None:
        if self._is_dead:
            return Crash(f"{operation} {path} after the crash")
        self.call_count += 1
        self.calls[operation, path[path.rfind("/") + 1 :]] += 1
        decision = self.hook(self.call_count, operation, path) if self.hook is not None else None
        if decision is None:
            return None
        if isinstance(decision, Crash):
            self._is_dead = True
            return decision
        return StorageError(path, decision, is_sync=operation.startswith("sync"))

    def write(self, operation: str, path: str, content: MemoryContent, position: int, data: bytes) -> None:
        """Write to a file, or only a part of the data if the disk is full or the hook returns an error."""
        error = self._decide(operation, path)
        room = len(data)
        if self.capacity_bytes is not None and not self.is_spared():
            growth_max = self.capacity_bytes - self.used_bytes()
            room = min(room, max(0, len(content.data) + growth_max - position))
        if error is not None:
            room = self.random.randint(0, room)
        content.write(position, data[:room])
        if error is not None:
            raise error
        if room < len(data):
            raise StorageError(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def sync(self, operation: str, path: str, node: MemoryNode | None) -> None:
        """Sync a file or the names in a folder, or drop the changes if the hook returns an error."""
        error = self._decide(operation, path)
        if node is not None and isinstance(error, StorageError):
            node.fail_sync(self.random)
        if error is not None:
            raise error
        if node is not None:
            node.sync()

    def used_bytes(self) -> int:
        return sum(len(content.data) for content in contents(self._root))

    # The FileSystem interface

    def open(self, path: str) -> File:
        self.enter("open", path)
        return MemoryFile(self, path, self._content(path))

    def create(self, path: str) -> File:
        self.enter("create", path)
        return MemoryFile(self, path, self._create(path))

    def _create(self, path: str) -> MemoryContent:
        names, name = self._parent(path)
        content = names.nodes.get(name)
        if isinstance(content, MemoryContent):
            content.truncate(0)
            return content
        content = MemoryContent()
        names.change({name: content})
        return content

    def read_file(self, path: str) -> bytes | None:
        self.enter("read_file", path)
        node = self._find(path)
        return bytes(node.data) if isinstance(node, MemoryContent) else None

    def map_file(self, path: str) -> Mapping | None:
        self.enter("map_file", path)
        node = self._find(path)
        return bytes(node.data) if isinstance(node, MemoryContent) else None

    def write_file(self, path: str, data: Buffer) -> None:
        self.enter("create", path)
        self.write("write_file", path, self._create(path), 0, bytes(data))

    def sync_file(self, path: str) -> None:
        node = self._find(path)
        self.sync("sync", path, node if isinstance(node, MemoryContent) else None)

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return self._find(path) is not None

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        self.enter("list_directory", path)
        return [
            DirectoryEntry(
                name, isinstance(node, MemoryNames), 0 if isinstance(node, MemoryNames) else len(node.data), 0
            )
            for name, node in self._names(path).nodes.items()
        ]

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        names = self._root
        for name in _parts(path):
            if name not in names.nodes:
                names.change({name: MemoryNames()})
            child = names.nodes[name]
            if not isinstance(child, MemoryNames):
                raise StorageError(path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
            names = child

    def sync_directory(self, path: str) -> None:
        node = self._find(path)
        self.sync("sync_directory", path, node if isinstance(node, MemoryNames) else None)

    def rename(self, source: str, target: str) -> None:
        self.enter("rename", source)
        names, source_name = self._parent(source)
        if self._parent(target)[0] is not names or source_name not in names.nodes:
            raise StorageError(source, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        names.change({source_name: None, _parts(target)[-1]: names.nodes[source_name]})

    def remove(self, path: str) -> None:
        self.enter("remove", path)
        if self._find(path) is not None:
            names, name = self._parent(path)
            names.change({name: None})

    def remove_directory(self, path: str) -> None:
        self.enter("remove_directory", path)
        node = self._find(path)
        if isinstance(node, MemoryNames) and node.nodes:
            raise StorageError(path, OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY)))
        if node is not None:
            names, name = self._parent(path)
            names.change({name: None})

    def lock(self, path: str) -> object:
        self.enter("lock", path)
        holder = self._locks.get(path)
        if holder is not None and holder() is not None:
            raise StorageError(path, OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))
        self._create(path)
        lock = _Lock()
        self._locks[path] = weakref.ref(lock)
        return lock

    # Path lookup

    def _find(self, path: str) -> MemoryNode | None:
        node: MemoryNode | None = self._root
        for name in _parts(path):
            node = node.nodes.get(name) if isinstance(node, MemoryNames) else None
        return node

    def _content(self, path: str) -> MemoryContent:
        node = self._find(path)
        if not isinstance(node, MemoryContent):
            raise StorageError(path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        return node

    def _names(self, path: str) -> MemoryNames:
        node = self._find(path)
        if not isinstance(node, MemoryNames):
            raise StorageError(path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        return node

    def _parent(self, path: str) -> tuple[MemoryNames, str]:
        return self._names(os.path.dirname(path)), os.path.basename(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
