"""A file system in memory that fails and crashes on command, for tests and the simulator.

It keeps apart what a process wrote and what would survive a power loss. Each file has its
synced bytes and the writes since, each folder its synced names and the changes since. `kill`
ends the process: everything written stays. `lose_power` ends the machine: of what was not
synced an arbitrary beginning stays, file by file and folder by folder, the last write perhaps
torn, perhaps with zeros where the size was saved and the bytes were not.

A hook sees every call before it happens and may make it fail or crash the process there; a
write that is hit leaves an arbitrary beginning of its bytes behind.
"""

import errno
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

from runnel.storage.error import StorageError
from runnel.storage.fs import Buffer, DirectoryEntry, File


class Crash(BaseException):
    """The process died in the middle of a file operation."""


Hook: TypeAlias = Callable[[int, str, str], OSError | Crash | None]


class _Content:
    """A file, named or not."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.changes: list[tuple[int, bytes | None]] = []  # a write at a position, or None: a cut there

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self.changes.append((position, data))

    def truncate(self, size_bytes: int) -> None:
        _apply(self.data, size_bytes, None)
        self.changes.append((size_bytes, None))

    def sync(self) -> None:
        self.synced = bytes(self.data)
        self.changes = []

    def lose_power(self, random: Random) -> None:
        survivors = random.randint(0, len(self.changes))
        data = bytearray(self.synced)
        for position, written in self.changes[:survivors]:
            _apply(data, position, written)
        if survivors < len(self.changes):
            position, written = self.changes[survivors]
            if written is not None:
                torn = written[: random.randint(0, len(written))]
                _apply(data, position, torn + bytes(random.choice((0, len(written) - len(torn)))))
        self.data = data
        self.sync()


class _Names:
    """A folder."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Content | _Names] = {}
        self.synced: dict[str, _Content | _Names] = {}
        self.changes: list[dict[str, _Content | _Names | None]] = []

    def change(self, change: "dict[str, _Content | _Names | None]") -> None:
        _apply_names(self.nodes, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.synced = dict(self.nodes)
        self.changes = []

    def lose_power(self, random: Random) -> None:
        self.nodes = self.synced
        for change in self.changes[: random.randint(0, len(self.changes))]:
            _apply_names(self.nodes, change)
        self.sync()
        for node in self.nodes.values():
            node.lose_power(random)


def _apply(data: bytearray, position: int, written: bytes | None) -> None:
    if position > len(data):
        data.extend(bytes(position - len(data)))
    if written is None:
        del data[position:]
    else:
        data[position : position + len(written)] = written


def _apply_names(nodes: dict[str, _Content | _Names], change: dict[str, _Content | _Names | None]) -> None:
    for name, node in change.items():
        if node is None:
            nodes.pop(name, None)
        else:
            nodes[name] = node


class _Lock:
    """Held as long as it is referenced."""


class MemoryFile:
    """A handle on a file, which stays good when the name is gone."""

    def __init__(self, fs: "MemoryFileSystem", path: str, content: _Content) -> None:
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
        self._fs.enter("sync", self.path)
        self._content.sync()


class MemoryFileSystem:
    """Files and folders in memory. `calls` counts (operation, name of the file)."""

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or Random(0)
        self.hook: Hook | None = None
        self.capacity_bytes: int | None = None
        self.is_cold = False
        self.call_count = 0
        self.bytes_read = 0
        self.calls: Counter[tuple[str, str]] = Counter()
        self._root = _Names()
        self._is_dead = False
        self._locks: dict[str, weakref.ref[_Lock]] = {}

    # What tests do to it

    def kill(self) -> None:
        """The process is gone, the machine runs on: everything written is there, synced or not."""
        self.hook = None
        self._is_dead = False
        self._locks = {}
        self.call_count = 0
        self.calls = Counter()

    def lose_power(self) -> None:
        """The machine is gone: what was not synced survives up to an arbitrary point."""
        self.kill()
        self._root.lose_power(self.random)

    def enter(self, operation: str, path: str) -> None:
        """Count a call and let the hook decide about it."""
        error = self._decide(operation, path)
        if error is not None:
            raise error

    def _decide(self, operation: str, path: str) -> Exception | Crash | None:
        if self._is_dead:
            return Crash(f"{operation} {path} after the crash")
        self.call_count += 1
        self.calls[operation, os.path.basename(path)] += 1
        decision = self.hook(self.call_count, operation, path) if self.hook is not None else None
        if isinstance(decision, Crash):
            self._is_dead = True
            return decision
        return None if decision is None else StorageError(path, decision, is_sync=operation.startswith("sync"))

    def write(self, operation: str, path: str, content: _Content, position: int, data: bytes) -> None:
        """Write to a file; a part of it when the disk is full or the hook says so."""
        error = self._decide(operation, path)
        room = len(data)
        if self.capacity_bytes is not None:
            growth_max = self.capacity_bytes - self.used_bytes()
            room = min(room, max(0, len(content.data) + growth_max - position))
        if error is not None:
            room = self.random.randint(0, room)
        content.write(position, data[:room])
        if error is not None:
            raise error
        if room < len(data):
            raise StorageError(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def used_bytes(self) -> int:
        return sum(len(content.data) for content in _contents(self._root))

    # What storage asks of it

    def open(self, path: str) -> File:
        self.enter("open", path)
        return MemoryFile(self, path, self._content(path))

    def create(self, path: str) -> File:
        self.enter("create", path)
        return MemoryFile(self, path, self._create(path))

    def _create(self, path: str) -> _Content:
        names, name = self._parent(path)
        content = names.nodes.get(name)
        if isinstance(content, _Content):
            content.truncate(0)
            return content
        content = _Content()
        names.change({name: content})
        return content

    def read_file(self, path: str) -> bytes | None:
        self.enter("read_file", path)
        node = self._find(path)
        return bytes(node.data) if isinstance(node, _Content) else None

    def write_file(self, path: str, data: Buffer) -> None:
        self.enter("create", path)
        self.write("write_file", path, self._create(path), 0, bytes(data))

    def sync_file(self, path: str) -> None:
        self.enter("sync", path)
        node = self._find(path)
        if isinstance(node, _Content):
            node.sync()

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return self._find(path) is not None

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        self.enter("list_directory", path)
        return [
            DirectoryEntry(name, isinstance(node, _Names), 0 if isinstance(node, _Names) else len(node.data), 0)
            for name, node in self._names(path).nodes.items()
        ]

    def make_directory(self, path: str) -> None:
        self.enter("make_directory", path)
        names = self._root
        for name in _parts(path):
            if name not in names.nodes:
                names.change({name: _Names()})
            child = names.nodes[name]
            if not isinstance(child, _Names):
                raise StorageError(path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
            names = child

    def sync_directory(self, path: str) -> None:
        self.enter("sync_directory", path)
        node = self._find(path)
        if isinstance(node, _Names):
            node.sync()

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
        if isinstance(node, _Names) and node.nodes:
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

    # Ways through the tree

    def _find(self, path: str) -> _Content | _Names | None:
        node: _Content | _Names | None = self._root
        for name in _parts(path):
            node = node.nodes.get(name) if isinstance(node, _Names) else None
        return node

    def _content(self, path: str) -> _Content:
        node = self._find(path)
        if not isinstance(node, _Content):
            raise StorageError(path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        return node

    def _names(self, path: str) -> _Names:
        node = self._find(path)
        if not isinstance(node, _Names):
            raise StorageError(path, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
        return node

    def _parent(self, path: str) -> tuple[_Names, str]:
        return self._names(os.path.dirname(path)), os.path.basename(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _contents(names: _Names) -> Iterator[_Content]:
    for node in names.nodes.values():
        if isinstance(node, _Names):
            yield from _contents(node)
        else:
            yield node
