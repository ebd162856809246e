"""The offset index: the positions of some batches of a segment, one for every few kilobytes.

The file is Kafka's `.index`: entries of 8 bytes, the last offset of a batch relative to the
segment's base offset and the position of that batch, both big-endian and rising.

While a segment is active, its entries are in two arrays. They are written to the file when the
segment is sealed, because recovery scans every unflushed segment and rebuilds its index anyway.
So an append costs one system call, and no file has to be grown or trimmed like Kafka's mapped
index files. The file of a sealed segment is mapped, and a lookup reads only the pages that it
touches.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import TypeAlias

from tailrace.storage.fs import Mapping

ENTRY_SIZE = 8
RELATIVE_OFFSET_MAX = 2**31 - 1
_NUMBER = Struct(">I")
_ENTRY = Struct(">II")


class CorruptIndex(Exception):
    """An index file is invalid or contradicts its log. The index is rebuilt."""


class OffsetIndex:
    """The entries of an active segment."""

    __slots__ = ("_positions", "_relative_offsets", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._relative_offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._relative_offsets)

    def append(self, offset: int, position: int) -> None:
        """Add an entry for the batch at `position` that ends with `offset`."""
        # A search on another thread finds an entry by offset, so append the position first.
        self._positions.append(position)
        self._relative_offsets.append(offset - self.base_offset)

    def find(self, offset: int) -> int:
        """Return the number of the last entry whose offset is not above `offset`, or -1."""
        return bisect_right(self._relative_offsets, offset - self.base_offset) - 1

    def find_position(self, position: int) -> int:
        """Return the number of the first entry whose batch is at `position` or after it."""
        return bisect_left(self._positions, position)

    def position(self, entry: int) -> int:
        """Return the position of the batch of an entry."""
        return self._positions[entry]

    def offset(self, entry: int) -> int:
        """Return the last offset of the batch of an entry."""
        return self.base_offset + self._relative_offsets[entry]

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at `offset` and above."""
        keep = bisect_left(self._relative_offsets, offset - self.base_offset)
        del self._relative_offsets[keep:]
        del self._positions[keep:]

    def encode(self) -> bytes:
        pairs = array("I", bytes(len(self) * ENTRY_SIZE))
        pairs[0::2] = self._relative_offsets
        pairs[1::2] = self._positions
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()

    @classmethod
    def decode(cls, data: Mapping, base_offset: int, log_size_bytes: int) -> "OffsetIndex":
        """Read an index file of an active segment; raise `CorruptIndex` if it is invalid."""
        _check(data, log_size_bytes)
        pairs = array("I", bytes(data))
        if sys.byteorder == "little":
            pairs.byteswap()
        index = cls(base_offset)
        index._relative_offsets = pairs[0::2]
        index._positions = pairs[1::2]
        return index


class SealedOffsetIndex:
    """The entries of a sealed segment, in the mapped file."""

    __slots__ = ("_count", "_data", "base_offset")

    def __init__(self, data: Mapping, base_offset: int, log_size_bytes: int) -> None:
        """Raise `CorruptIndex` if the first or last entry is invalid. Others are checked against the log on use."""
        _check(data, log_size_bytes)
        self.base_offset = base_offset
        self._data = data
        self._count = len(data) // ENTRY_SIZE

    def __len__(self) -> int:
        return self._count

    def find(self, offset: int) -> int:
        """Return the number of the last entry whose offset is not above `offset`, or -1."""
        data, unpack_from, relative_offset = self._data, _NUMBER.unpack_from, offset - self.base_offset
        low, high = 0, self._count
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(data, middle * ENTRY_SIZE)[0] <= relative_offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def find_position(self, position: int) -> int:
        """Return the number of the first entry whose batch is at `position` or after it."""
        return bisect_left(range(self._count), position, key=self.position)

    def position(self, entry: int) -> int:
        """Return the position of the batch of an entry."""
        position: int = _ENTRY.unpack_from(self._data, entry * ENTRY_SIZE)[1]
        return position

    def offset(self, entry: int) -> int:
        """Return the last offset of the batch of an entry."""
        relative_offset: int = _NUMBER.unpack_from(self._data, entry * ENTRY_SIZE)[0]
        return self.base_offset + relative_offset

    def encode(self) -> bytes:
        return bytes(self._data)


AnyOffsetIndex: TypeAlias = OffsetIndex | SealedOffsetIndex


def _check(data: Mapping, log_size_bytes: int) -> None:
    if len(data) % ENTRY_SIZE:
        raise CorruptIndex(f"{len(data)} bytes are not a multiple of the size of an offset index entry")
    if len(data) == 0:
        return
    first, _ = _ENTRY.unpack_from(data, 0)
    last, position = _ENTRY.unpack_from(data, len(data) - ENTRY_SIZE)
    # After a crash, Kafka's preallocated files end with entries of zeros.
    if not (0 < position < log_size_bytes and first <= last <= RELATIVE_OFFSET_MAX):
        raise CorruptIndex(f"invalid last entry: {last} at position {position} of a log of {log_size_bytes} bytes")
