"""Where in a segment file an offset is, for one batch in every few kilobytes.

The file is Kafka's `.index`: entries of 8 bytes, the last offset of a batch less the
segment's base offset and the position of that batch, both big-endian and rising.

While a segment takes appends its entries live in two arrays. They reach the file when the
segment is sealed, because after a crash every segment that was not flushed is scanned and its
index made anew anyway. An append so costs one system call, and nothing has to be grown or
trimmed as Kafka's mapped index files are. The file of a sealed segment is mapped, and a
lookup reads the few pages that it touches.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import TypeAlias

from runnel.storage.fs import Mapping

ENTRY_SIZE = 8
RELATIVE_OFFSET_MAX = 2**31 - 1
_NUMBER = Struct(">I")
_ENTRY = Struct(">II")


class CorruptIndex(Exception):  # noqa: N818  says what is wrong with the file
    """An index file cannot be right, or contradicts its log. It is thrown away and made anew."""


class OffsetIndex:
    """The entries of a segment that takes appends."""

    __slots__ = ("_positions", "_relative_offsets", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._relative_offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._relative_offsets)

    def append(self, offset: int, position: int) -> None:
        """Note that the batch that ends with `offset` stands at `position`."""
        # A search in another thread finds by offset, so the position must be there first.
        self._positions.append(position)
        self._relative_offsets.append(offset - self.base_offset)

    def find(self, offset: int) -> int:
        """The number of the last entry whose offset is not above `offset`, or -1."""
        return bisect_right(self._relative_offsets, offset - self.base_offset) - 1

    def find_position(self, position: int) -> int:
        """The number of the first entry whose batch stands at `position` or after it."""
        return bisect_left(self._positions, position)

    def position(self, entry: int) -> int:
        """Where the batch of an entry stands."""
        return self._positions[entry]

    def offset(self, entry: int) -> int:
        """The last offset of the batch of an entry."""
        return self.base_offset + self._relative_offsets[entry]

    def truncate_to(self, offset: int) -> None:
        """Forget the entries at `offset` and above."""
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
        """Read an index file, to go on with it; raises `CorruptIndex` for one that no segment can have."""
        _check(data, log_size_bytes)
        pairs = array("I", bytes(data))
        if sys.byteorder == "little":
            pairs.byteswap()
        index = cls(base_offset)
        index._relative_offsets = pairs[0::2]
        index._positions = pairs[1::2]
        return index


class SealedOffsetIndex:
    """The entries of a segment that takes no more batches, in the file as it is."""

    __slots__ = ("_count", "_data", "base_offset")

    def __init__(self, data: Mapping, base_offset: int, log_size_bytes: int) -> None:
        """Raises `CorruptIndex`. Entries in the middle are checked against the log when they are used."""
        _check(data, log_size_bytes)
        self.base_offset = base_offset
        self._data = data
        self._count = len(data) // ENTRY_SIZE

    def __len__(self) -> int:
        return self._count

    def find(self, offset: int) -> int:
        """The number of the last entry whose offset is not above `offset`, or -1."""
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
        """The number of the first entry whose batch stands at `position` or after it."""
        return bisect_left(range(self._count), position, key=self.position)

    def position(self, entry: int) -> int:
        """Where the batch of an entry stands."""
        position: int = _ENTRY.unpack_from(self._data, entry * ENTRY_SIZE)[1]
        return position

    def offset(self, entry: int) -> int:
        """The last offset of the batch of an entry."""
        relative_offset: int = _NUMBER.unpack_from(self._data, entry * ENTRY_SIZE)[0]
        return self.base_offset + relative_offset

    def encode(self) -> bytes:
        return bytes(self._data)


AnyOffsetIndex: TypeAlias = OffsetIndex | SealedOffsetIndex


def _check(data: Mapping, log_size_bytes: int) -> None:
    if len(data) % ENTRY_SIZE:
        raise CorruptIndex(f"{len(data)} bytes are not whole offset index entries")
    if len(data) == 0:
        return
    first, _ = _ENTRY.unpack_from(data, 0)
    last, position = _ENTRY.unpack_from(data, len(data) - ENTRY_SIZE)
    # A last entry of zeros is what Kafka's preallocated files have after a crash.
    if not (0 < position < log_size_bytes and first <= last <= RELATIVE_OFFSET_MAX):
        raise CorruptIndex(f"impossible last entry {last} at {position} of a log of {log_size_bytes} bytes")
