"""The offset map of compaction: the newest offset of each key, in a fixed amount of memory.

Compaction reads a log twice: once to find the newest offset of each key, once to keep only those
records. In between it stores, for each key, a hash of 16 bytes and an offset, in open addressing
with linear probing, as Kafka's cleaner does. Two keys with the same hash would be taken for one. The
hash key is secret and random, so such a pair cannot be constructed, and among 2^32 keys one exists
with a probability of 2^-65.

There are two versions: the Python one below, which defines the behaviour, and one in C with the same
steps in `_compact.pxi`. They use different hash functions, which is not visible outside.
"""

import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol

from tailrace.base.invariant import invariant
from tailrace.records.batch import NO_TIMESTAMP, Buffer
from tailrace.records.error import CorruptBatch
from tailrace.records.native import find_native
from tailrace.records.varint import read_varint, read_varlong
from tailrace.records.walk import WalkError

HASH_SIZE = 16
SLOT_SIZE = HASH_SIZE + 8

_OFFSET = Struct("<q")


class KeptRecords(NamedTuple):
    """The remaining records of a batch."""

    record_count: int
    has_tombstone: bool  # among the remaining records
    max_timestamp: int  # of the remaining records, -1 if there are none
    body: bytes | None  # None if no record was removed


class KeyMap(Protocol):
    """The interface of both maps. `record_count` records fill `body`, and offsets count from `base_offset`."""

    capacity: int  # the maximum number of keys

    @property
    def size(self) -> int:
        """The number of keys in the map."""

    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key. Return False if the key is new and the map is full."""

    def get(self, key: bytes) -> int:
        """Return the offset of a key, or -1."""

    def put_records(self, body: Buffer, record_count: int, base_offset: int, from_offset: int) -> bool:
        """Store the keys of all records from `from_offset` on. Return False if the map is full."""

    def filter_records(
        self,
        body: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        up_to_offset: int,
        keep_tombstones: bool,
    ) -> KeptRecords:
        """Keep the records that are the newest of their key, and all from `up_to_offset` on.

        A record without a key is removed. A record without a value, a tombstone, is kept only with
        `keep_tombstones`.
        """


class PythonOffsetMap:
    """The offset map in Python."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        slot_count = memory_bytes // SLOT_SIZE
        self.size = 0
        # One slot stays free, because the search for a missing key ends at a free slot.
        self.capacity = min(int(slot_count * load_factor), slot_count - 1)
        invariant(self.capacity >= 1, "an offset map has room for at least one key")
        self._slot_count = slot_count
        self._memory = bytearray(slot_count * SLOT_SIZE)
        self._secret = os.urandom(HASH_SIZE)

    def put(self, key: bytes, offset: int) -> bool:
        digest, position = self._find(key)
        if not _OFFSET.unpack_from(self._memory, position + HASH_SIZE)[0]:
            if self.size >= self.capacity:
                return False
            self.size += 1
            self._memory[position : position + HASH_SIZE] = digest
        _OFFSET.pack_into(self._memory, position + HASH_SIZE, offset + 1)
        return True

    def get(self, key: bytes) -> int:
        _, position = self._find(key)
        offset: int = _OFFSET.unpack_from(self._memory, position + HASH_SIZE)[0]
        return offset - 1

    def _find(self, key: bytes) -> tuple[bytes, int]:
        """Return the hash of a key and the position of its slot, or of the free slot where it belongs.

        A slot holds the offset plus one, so that a free slot is all zeros.
        """
        memory = self._memory
        digest = blake2b(key, digest_size=HASH_SIZE, key=self._secret).digest()
        end = self._slot_count * SLOT_SIZE
        position = int.from_bytes(digest[:8], "little") % self._slot_count * SLOT_SIZE
        while True:
            if memory[position : position + HASH_SIZE] == digest:
                return digest, position
            if not _OFFSET.unpack_from(memory, position + HASH_SIZE)[0]:
                return digest, position
            position += SLOT_SIZE
            if position == end:
                position = 0

    def put_records(self, body: Buffer, record_count: int, base_offset: int, from_offset: int) -> bool:
        for record in _records(bytes(body), record_count):
            offset = base_offset + record.offset_delta
            if record.key is not None and offset >= from_offset and not self.put(record.key, offset):
                return False
        return True

    def filter_records(
        self,
        body: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        up_to_offset: int,
        keep_tombstones: bool,
    ) -> KeptRecords:
        data = bytes(body)
        kept = bytearray()
        count = 0
        has_tombstone = False
        max_timestamp = NO_TIMESTAMP
        for record in _records(data, record_count):
            offset = base_offset + record.offset_delta
            if offset < up_to_offset and not self._is_kept(record, offset, keep_tombstones):
                continue
            kept += data[record.start : record.end]
            count += 1
            has_tombstone |= not record.has_value
            max_timestamp = max(max_timestamp, base_timestamp + record.timestamp_delta)
        return KeptRecords(count, has_tombstone, max_timestamp, None if count == record_count else bytes(kept))

    def _is_kept(self, record: "_Fields", offset: int, keep_tombstones: bool) -> bool:
        if record.key is None or not (record.has_value or keep_tombstones):
            return False
        return offset >= self.get(record.key)


class _Fields(NamedTuple):
    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def _records(data: bytes, record_count: int) -> Iterator[_Fields]:
    """Yield the fields that compaction uses. Headers are not parsed."""
    at = 0
    for _ in range(record_count):
        start = at
        size, at = read_varint(data, at, len(data))
        end = at + size
        if size < 1 or end > len(data):
            raise CorruptBatch(f"a record has {size} bytes, but only {len(data) - at} are left")
        timestamp_delta, at = read_varlong(data, at + 1, end)
        offset_delta, at = read_varint(data, at, end)
        key_size, at = read_varint(data, at, end)
        key = None
        if key_size >= 0:
            key = data[at : at + key_size]
            at += key_size
        if at > end:
            raise CorruptBatch(f"a key has {key_size} bytes in a record of {size}")
        value_size, at = read_varint(data, at, end)
        yield _Fields(start, end, timestamp_delta, offset_delta, key, value_size >= 0)
        at = end
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes follow the last record")


_native = find_native("OffsetMap")
IS_NATIVE = _native is not None


class NativeOffsetMap:
    """The offset map in C."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self._map = _native(memory_bytes, load_factor, os.urandom(HASH_SIZE))
        self.capacity: int = self._map.capacity
        self.put: Callable[[bytes, int], bool] = self._map.put
        self.get: Callable[[bytes], int] = self._map.get

    @property
    def size(self) -> int:
        size: int = self._map.size
        return size

    def put_records(self, body: Buffer, record_count: int, base_offset: int, from_offset: int) -> bool:
        has_room, error = self._map.put_records(body, record_count, base_offset, from_offset)
        _check(error)
        return bool(has_room)

    def filter_records(
        self,
        body: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        up_to_offset: int,
        keep_tombstones: bool,
    ) -> KeptRecords:
        *kept, error = self._map.filter_records(
            body, record_count, base_offset, base_timestamp, up_to_offset, keep_tombstones
        )
        _check(error)
        return KeptRecords(*kept)


def _check(error: int) -> None:
    if error:
        raise CorruptBatch(WalkError(error).text)


def make_offset_map(memory_bytes: int, load_factor: float) -> KeyMap:
    """Return an empty map that uses `memory_bytes`, of which keys may fill the part `load_factor`."""
    return (NativeOffsetMap if IS_NATIVE else PythonOffsetMap)(memory_bytes, load_factor)
