"""Where in a segment file an offset is, for one batch in every few kilobytes.

The file is Kafka's `.index`: entries of 8 bytes, the last offset of a batch less the
segment's base offset and the position of that batch, both big-endian and rising.

The entries live in two arrays and reach the file only when the segment is sealed, because
after a crash every segment that was not flushed is scanned and its index made anew anyway.
An append so costs one system call, a lookup none, and nothing has to be mapped, grown or
trimmed as Kafka's mapped index files are.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right

ENTRY_SIZE = 8
RELATIVE_OFFSET_MAX = 2**31 - 1


class CorruptIndex(Exception):  # noqa: N818  says what is wrong with the file
    """An index file cannot be right, or contradicts its log. It is thrown away and made anew."""


class OffsetIndex:
    """The entries of one segment's `.index` file."""

    __slots__ = ("base_offset", "positions", "relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.relative_offsets = array("I")
        self.positions = array("I")

    def __len__(self) -> int:
        return len(self.positions)

    def append(self, offset: int, position: int) -> None:
        """Note that the batch that ends with `offset` stands at `position`."""
        self.relative_offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def find(self, offset: int) -> int:
        """The index of the last entry whose offset is not above `offset`, or -1."""
        return bisect_right(self.relative_offsets, offset - self.base_offset) - 1

    def position(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        entry = bisect_right(self.relative_offsets, offset - self.base_offset) - 1
        return self.positions[entry] if entry >= 0 else 0

    def offset(self, entry: int) -> int:
        return self.base_offset + self.relative_offsets[entry]

    def truncate_to(self, offset: int) -> None:
        """Forget the entries at `offset` and above."""
        keep = bisect_left(self.relative_offsets, offset - self.base_offset)
        del self.relative_offsets[keep:]
        del self.positions[keep:]

    def encode(self) -> bytes:
        pairs = array("I", bytes(len(self) * ENTRY_SIZE))
        pairs[0::2] = self.relative_offsets
        pairs[1::2] = self.positions
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()

    @classmethod
    def decode(cls, data: bytes, base_offset: int, log_size_bytes: int) -> "OffsetIndex":
        """Read an index file. Entries in the middle are checked against the log when they are used."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not whole offset index entries")
        pairs = array("I", data)
        if sys.byteorder == "little":
            pairs.byteswap()
        index = cls(base_offset)
        index.relative_offsets = pairs[0::2]
        index.positions = pairs[1::2]
        # A last entry of zeros is what Kafka's preallocated files have after a crash.
        if pairs and not (0 < pairs[-1] < log_size_bytes and pairs[0] <= pairs[-2] <= RELATIVE_OFFSET_MAX):
            raise CorruptIndex(f"impossible last entry {pairs[-2]} at {pairs[-1]} of a log of {log_size_bytes} bytes")
        return index
