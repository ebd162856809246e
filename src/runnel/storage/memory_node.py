"""Files and folders in memory, with what a power loss would leave of them.

Each file has the bytes that are on the disk and the changes since, each folder the names on the
disk and the changes since. What survives of the changes is drawn anew for every loss:

- Of a file, sector by sector, an arbitrary beginning of the writes that touched the sector, and
  independently of that an arbitrary beginning of the changes of its size. So later writes may be
  there without earlier ones, writes are torn at sectors, and zeros or old bytes stand in between.
- Of a folder any of the created, renamed and removed names, in any combination. A rename is there
  as a whole or not at all.

A sync that fails leaves on the disk what a power loss would, and the rest is forgotten: the
next sync succeeds without having saved it, as on Linux.
"""

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

# Smaller sectors than any disk has tear the small files of tests in as many places as large
# ones; a sector of one byte tears anywhere.
_SECTOR_SIZES = (1, 16, 64, 512, 4096)


class MemoryContent:
    """A file, named or not."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._disk = bytearray()
        self._changes: list[tuple[int, bytes | None]] = []  # a write at a position, or None: a cut there
        self._is_suspect = False

    def write(self, position: int, data: bytes) -> None:
        _apply(self.data, position, data)
        self._changes.append((position, data))

    def truncate(self, size_bytes: int) -> None:
        _apply(self.data, size_bytes, None)
        self._changes.append((size_bytes, None))

    def sync(self) -> None:
        # Not the data as it is: what an earlier sync failed to write is not written by this one.
        self._disk = self._on_disk_with_all()
        self._changes = []

    def fail_sync(self, random: Random) -> None:
        """Forget what is not on the disk, and say so only once."""
        self._disk = self._survive(random)
        self._changes = []
        self._is_suspect = True

    def evict(self) -> None:
        """Drop the clean pages, after which reading shows what a failed sync did not write."""
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
        """What the disk holds after a loss now."""
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
        """Forget the changes that are not on the disk."""
        self._disk = self._survive(random)
        self._changes = []
        self._is_suspect = True

    def evict(self) -> None:
        """Drop what is clean, here and below."""
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
    """Every file in a folder and the folders in it."""
    for node in names.nodes.values():
        if isinstance(node, MemoryNames):
            yield from contents(node)
        else:
            yield node


def _survivors(changes: "list[dict[str, MemoryNode | None]]", random: Random) -> "list[dict[str, MemoryNode | None]]":
    """Which changes of names are on the disk: mostly the combinations that ordering mistakes show in."""
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
    """The number of each sector that a write touches, where the write begins in it and with what."""
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
            # A rename that survived without the one before it: nothing has two names.
            for other in [other for other, known in nodes.items() if known is node]:
                del nodes[other]
        nodes[name] = node
