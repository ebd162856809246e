"""Up to which offset a segment holds nothing newer than a timestamp.

The file is Kafka's `.timeindex`: entries of 12 bytes, a timestamp in milliseconds and a
relative offset, both big-endian. An entry (t, o) says that t is the largest timestamp up to
offset o, so whatever has a larger one comes after o. Timestamps rise strictly.

Like the offset index it lives in arrays and reaches its file when the segment is sealed; the
last entry then is the largest timestamp of the whole segment.
"""

from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct

from runnel.storage.offset_index import RELATIVE_OFFSET_MAX, CorruptIndex

ENTRY_SIZE = 12
_ENTRY = Struct(">qI")


class TimeIndex:
    """The entries of one segment's `.timeindex` file."""

    __slots__ = ("base_offset", "relative_offsets", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")
        self.relative_offsets = array("I")

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, offset: int) -> None:
        """Note the largest timestamp so far; one that is not larger than the last entry's is no news."""
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.relative_offsets.append(offset - self.base_offset)

    def last(self) -> tuple[int, int]:
        """The last entry's timestamp and offset, or -1 and the base offset."""
        if not self.timestamps:
            return -1, self.base_offset
        return self.timestamps[-1], self.base_offset + self.relative_offsets[-1]

    def offset(self, timestamp: int) -> int:
        """An offset at or before the first record that is not older than `timestamp`."""
        entry = bisect_right(self.timestamps, timestamp) - 1
        return self.base_offset + (self.relative_offsets[entry] if entry >= 0 else 0)

    def truncate_to(self, offset: int) -> None:
        """Forget the entries at `offset` and above."""
        keep = bisect_left(self.relative_offsets, offset - self.base_offset)
        del self.timestamps[keep:]
        del self.relative_offsets[keep:]

    def encode(self) -> bytes:
        pack = _ENTRY.pack
        return b"".join(map(pack, self.timestamps, self.relative_offsets))

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TimeIndex":
        """Read an index file; raises `CorruptIndex` for one that no segment can have."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndex(f"{len(data)} bytes are not whole time index entries")
        index = cls(base_offset)
        if data:
            timestamps, relative_offsets = zip(*_ENTRY.iter_unpack(data), strict=True)
            if timestamps[0] < 0 or relative_offsets[-1] > RELATIVE_OFFSET_MAX:
                raise CorruptIndex(f"impossible entries from {timestamps[0]} to offset {relative_offsets[-1]}")
            if not _is_rising(timestamps) or not _is_rising(relative_offsets):
                raise CorruptIndex("a time index entry is not after the one before it")
            index.timestamps = array("q", timestamps)
            index.relative_offsets = array("I", relative_offsets)
        return index


def _is_rising(numbers: tuple[int, ...]) -> bool:
    return all(map(lt, numbers, numbers[1:]))
