"""The time index: offsets up to which a segment has no record newer than a timestamp.

The file is Kafka's `.timeindex`: entries of 12 bytes, a timestamp in milliseconds and a relative
offset, both big-endian. An entry (t, o) says that t is the largest timestamp up to offset o, so
every record with a larger one comes after o. Timestamps rise strictly.

Like the offset index, it is in arrays until its segment is sealed, and is mapped after that. The
last entry is then the largest timestamp of the whole segment.
"""

from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct
from typing import TypeAlias

from tailrace.storage.fs import Mapping
from tailrace.storage.offset_index import RELATIVE_OFFSET_MAX, CorruptIndex

ENTRY_SIZE = 12
_TIMESTAMP = Struct(">q")
_ENTRY = Struct(">qI")


class TimeIndex:
    """The entries of an active segment."""

    __slots__ = ("_relative_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._relative_offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    def append(self, timestamp: int, offset: int) -> None:
        """Add the largest timestamp so far, unless the last entry has it already."""
        if timestamp > (self._timestamps[-1] if self._timestamps else -1):
            # A search on another thread finds an entry by timestamp, so append the offset first.
            self._relative_offsets.append(offset - self.base_offset)
            self._timestamps.append(timestamp)

    def last(self) -> tuple[int, int]:
        """Return the last entry's timestamp and offset, or -1 and the base offset."""
        return self._entry(len(self) - 1)

    def floor(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry that is not newer than `timestamp`, or -1 and the base offset.

        All records before its offset are older than `timestamp`.
        """
        return self._entry(bisect_right(self._timestamps, timestamp) - 1)

    def _entry(self, entry: int) -> tuple[int, int]:
        if entry < 0:
            return -1, self.base_offset
        return self._timestamps[entry], self.base_offset + self._relative_offsets[entry]

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at `offset` and above."""
        keep = bisect_left(self._relative_offsets, offset - self.base_offset)
        del self._timestamps[keep:]
        del self._relative_offsets[keep:]

    def encode(self) -> bytes:
        pack = _ENTRY.pack
        return b"".join(map(pack, self._timestamps, self._relative_offsets))

    @classmethod
    def decode(cls, data: Mapping, base_offset: int) -> "TimeIndex":
        """Read an index file of an active segment; raise `CorruptIndex` if it is invalid."""
        _check(data)
        index = cls(base_offset)
        if data:
            timestamps, relative_offsets = zip(*_ENTRY.iter_unpack(data), strict=True)
            if not _is_rising(timestamps) or not _is_rising(relative_offsets):
                raise CorruptIndex("a time index entry is not after the previous one")
            index._timestamps = array("q", timestamps)
            index._relative_offsets = array("I", relative_offsets)
        return index


class SealedTimeIndex:
    """The entries of a sealed segment, in the mapped file."""

    __slots__ = ("_count", "_data", "base_offset")

    def __init__(self, data: Mapping, base_offset: int) -> None:
        """Raise `CorruptIndex` if the first or last entry is invalid. Others are checked against the log on use."""
        _check(data)
        self.base_offset = base_offset
        self._data = data
        self._count = len(data) // ENTRY_SIZE

    def __len__(self) -> int:
        return self._count

    def last(self) -> tuple[int, int]:
        """Return the last entry's timestamp and offset, or -1 and the base offset."""
        return self._entry(self._count - 1)

    def floor(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry that is not newer than `timestamp`, or -1 and the base offset."""
        data, unpack_from = self._data, _TIMESTAMP.unpack_from
        low, high = 0, self._count
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(data, middle * ENTRY_SIZE)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self._entry(low - 1)

    def _entry(self, entry: int) -> tuple[int, int]:
        if entry < 0:
            return -1, self.base_offset
        timestamp, relative_offset = _ENTRY.unpack_from(self._data, entry * ENTRY_SIZE)
        return timestamp, self.base_offset + relative_offset

    def encode(self) -> bytes:
        return bytes(self._data)


AnyTimeIndex: TypeAlias = TimeIndex | SealedTimeIndex


def _check(data: Mapping) -> None:
    if len(data) % ENTRY_SIZE:
        raise CorruptIndex(f"{len(data)} bytes are not a multiple of the size of a time index entry")
    if len(data) == 0:
        return
    first_timestamp, first_offset = _ENTRY.unpack_from(data, 0)
    timestamp, offset = _ENTRY.unpack_from(data, len(data) - ENTRY_SIZE)
    is_rising = len(data) == ENTRY_SIZE or (first_timestamp < timestamp and first_offset < offset)
    if first_timestamp < 0 or offset > RELATIVE_OFFSET_MAX or not is_rising:
        raise CorruptIndex(f"invalid entries from timestamp {first_timestamp} to {timestamp} at offset {offset}")


def _is_rising(numbers: tuple[int, ...]) -> bool:
    return all(map(lt, numbers, numbers[1:]))
