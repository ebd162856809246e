"""Files and folders in memory that can lose unsynced changes.

Each file has the bytes on the disk and the changes since, each folder the names on the disk and
the changes since. A power loss keeps a random part of the changes:

- Of a file, for each sector, a prefix of the writes that touched the sector, and independently a
  prefix of the changes of its size. So later writes may survive without earlier ones, writes are
  torn at sectors, and zeros or old bytes remain in between.
- Of a folder, any of the created, renamed and removed names, in any combination. A rename survives
  as a whole or not at all.

A failed sync leaves on the disk what a power loss would, and forgets the other changes: the next
sync succeeds without saving them, as on Linux.
"""

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

# Sectors smaller than those of any disk tear the small files of tests in as many places as large
# ones. A sector of one byte tears anywhere.
_SECTOR_SIZES = (1, 16, 64, 512, 4096)


class MemoryContent:
    """A file, named or not."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._disk = bytearray()
        self._changes: list[tuple[int, bytes | None]] = []  # a write at a position; None truncates there
        self._is_suspect = False

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self._changes.append((position, data))

    def truncate(self, size_bytes: int) -> None:
        _apply(self.data, size_bytes, None)
        self._changes.append((size_bytes, None))

    def sync(self) -> None:
        # Not a copy of the data: this sync does not write what an earlier sync failed to write.
        self._disk = self._on_disk_with_all()
        self._changes = []

    def fail_sync(self, random: Random) -> None:
        """Drop the changes that are not on the disk; the next sync succeeds without them."""
        self._disk = self._survive(random)
        self._changes = []
        self._is_suspect = True

    def evict(self) -> None:
        """Drop the clean pages, so that reads no longer return what a failed sync did not write."""
        if self._is_suspect:
            self.data = self._on_disk_with_all()
            self._is_suspect = False

    def lose_power(self, random: Random) -> None:
        self.data = self._survive(random)
        self._disk = bytearray(self.data)
        self._changes = []
        self._is_suspect = False

    def _on_disk_with_all(self) -> bytearray:
        data = bytearray(self._disk)
        for position, written in self._changes:
            _apply(data, position, written)
        return data

    def _survive(self, random: Random) -> bytearray:
        """Return the content of the disk after a power loss now."""
        sector_bytes = random.choice(_SECTOR_SIZES)
        is_ordered = random.random() < 0.3
        size_survivors = random.randint(0, len(self._changes))
        survivors: dict[int, int] = {}
        size_bytes = end = len(self._disk)
        data = bytearray(self._disk)
        for number, (position, written) in enumerate(self._changes):
            end = position if written is None else max(end, position + len(written))
            if number < size_survivors:
                size_bytes = end
            if written is None:
                if number < size_survivors:
                    _apply(data, position, None)
                continue
            for sector, start, piece in _pieces(position, written, sector_bytes):
                if sector not in survivors:
                    survivors[sector] = size_survivors if is_ordered else random.randint(0, len(self._changes))
                if number < survivors[sector]:
                    _apply(data, start, piece)
        _apply(data, size_bytes, None)
        return data


class MemoryNames:
    """A folder."""

    def __init__(self) -> None:
        self.nodes: dict[str, MemoryNode] = {}
        self._disk: dict[str, MemoryNode] = {}
        self._changes: list[dict[str, MemoryNode | None]] = []
        self._is_suspect = False

    def change(self, change: "dict[str, MemoryNode | None]") -> None:
        _apply_names(self.nodes, change)
        self._changes.append(change)

    def sync(self) -> None:
        for change in self._changes:
            _apply_names(self._disk, change)
        self._changes = []

    def fail_sync(self, random: Random) -> None:
        """Drop the changes that are not on the disk."""
        self._disk = self._survive(random)
        self._changes = []
        self._is_suspect = True

    def evict(self) -> None:
        """Drop the clean pages of this folder and of everything in it."""
        if self._is_suspect:
            self.nodes = dict(self._disk)
            for change in self._changes:
                _apply_names(self.nodes, change)
            self._is_suspect = False
        for node in self.nodes.values():
            node.evict()

    def lose_power(self, random: Random) -> None:
        self.nodes = self._survive(random)
        self._disk = dict(self.nodes)
        self._changes = []
        self._is_suspect = False
        for node in self.nodes.values():
            node.lose_power(random)

    def _survive(self, random: Random) -> "dict[str, MemoryNode]":
        nodes = dict(self._disk)
        for change in _survivors(self._changes, random):
            _apply_names(nodes, change)
        return nodes


MemoryNode: TypeAlias = MemoryContent | MemoryNames


def contents(names: MemoryNames) -> Iterator[MemoryContent]:
    """Yield every file in a folder and its subfolders."""
    for node in names.nodes.values():
        if isinstance(node, MemoryNames):
            yield from contents(node)
        else:
            yield node


def _survivors(changes: "list[dict[str, MemoryNode | None]]", random: Random) -> "list[dict[str, MemoryNode | None]]":
    """Choose the changes of names that survive, mostly in combinations that expose wrong ordering."""
    kind = random.randrange(5)
    if kind == 0:
        return changes[: random.randint(0, len(changes))]
    if kind == 1:
        return changes[random.randint(0, len(changes)) :]
    chosen = random.randrange(len(changes)) if changes else 0
    if kind == 2:
        return changes[chosen : chosen + 1]
    if kind == 3:
        return changes[:chosen] + changes[chosen + 1 :]
    return [change for change in changes if random.random() < 0.5]


def _pieces(position: int, data: bytes, sector_bytes: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the parts of a write by sector: the number of the sector, the position and the bytes."""
    start = position
    while start < position + len(data):
        sector = start // sector_bytes
        end = min((sector + 1) * sector_bytes, position + len(data))
        yield sector, start, data[start - position : end - position]
        start = end


def _apply(data: bytearray, position: int, written: bytes | None) -> None:
    if position > len(data):
        data.extend(bytes(position - len(data)))
    if written is None:
        del data[position:]
    else:
        data[position : position + len(written)] = written


def _apply_names(nodes: "dict[str, MemoryNode]", change: "dict[str, MemoryNode | None]") -> None:
    for name, node in change.items():
        if node is None:
            nodes.pop(name, None)
            continue
        if len(change) > 1:
            # A rename that survived without an earlier one: a node has one name.
            for other in [other for other, known in nodes.items() if known is node]:
                del nodes[other]
        nodes[name] = node
