"""The newest offset of each key, in a piece of memory that does not grow.

Compaction goes through a log twice: once to note where each key stands last, once to keep only
those records. Between the two it remembers, for each key, a hash of 16 bytes and an offset, in
open addressing with linear probing, as Kafka's cleaner does. Two keys with the same hash would
pass for one; with a secret random hash key nobody can make such a pair, and among 2^32 keys one
exists with a probability of 2^-65.

There are two of it: the Python below, which is the definition, and one in C with the same
steps in `_compact.pxi`. They hash differently, which nobody can tell from outside.
"""

import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol

from runnel.base.invariant import invariant
from runnel.records.batch import NO_TIMESTAMP, Buffer
from runnel.records.error import CorruptBatch
from runnel.records.native import find_native
from runnel.records.varint import read_varint, read_varlong
from runnel.records.walk import WalkError

HASH_SIZE = 16
SLOT_SIZE = HASH_SIZE + 8
NO_OFFSET = -1

_OFFSET = Struct("<q")


class KeptRecords(NamedTuple):
    """What is left of the records of a batch."""

    record_count: int
    has_tombstone: bool  # among those that are left
    max_timestamp: int  # of those that are left, -1 if none is
    body: bytes | None  # None if all are left


class KeyMap(Protocol):
    """What both maps can do; `record_count` records fill `body`, and offsets count from `base_offset`."""

    capacity: int  # how many keys it takes

    @property
    def size(self) -> int:
        """How many keys it holds."""

    def put(self, key: bytes, offset: int) -> bool:
        """Note that `key` stands at `offset`. False if it is new and there is no room for it."""

    def get(self, key: bytes) -> int:
        """The offset of a key, -1 if it has none."""

    def put_records(self, body: Buffer, record_count: int, base_offset: int, from_offset: int) -> bool:
        """Note the keys of all records from `from_offset` on. False if one found no room."""

    def filter_records(
        self,
        body: Buffer,
        record_count: int,
        base_offset: int,
        base_timestamp: int,
        up_to_offset: int,
        keep_tombstones: bool,
    ) -> KeptRecords:
        """Keep the records that are their key's newest, and all from `up_to_offset` on.

        A record without a key is not kept, and one without a value, a tombstone, only with
        `keep_tombstones`.
        """


class PythonOffsetMap:
    """The map in Python."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        slot_count = memory_bytes // SLOT_SIZE
        self.size = 0
        # One slot stays free, because a search for a key that is not there ends at one.
        self.capacity = min(int(slot_count * load_factor), slot_count - 1)
        invariant(self.capacity >= 1, "an offset map has room for a key")
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
        """The hash of a key and the position of its slot, or of the free one where it belongs.

        A slot holds the offset plus one, so that a free one is all zeros.
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
    """The fields that compaction looks at; headers stay closed."""
    at = 0
    for _ in range(record_count):
        start = at
        size, at = read_varint(data, at, len(data))
        end = at + size
        if size < 1 or end > len(data):
            raise CorruptBatch(f"a record of {size} bytes where {len(data) - at} are left")
        timestamp_delta, at = read_varlong(data, at + 1, end)
        offset_delta, at = read_varint(data, at, end)
        key_size, at = read_varint(data, at, end)
        key = None
        if key_size >= 0:
            key = data[at : at + key_size]
            at += key_size
        if at > end:
            raise CorruptBatch(f"a key of {key_size} bytes in a record of {size}")
        value_size, at = read_varint(data, at, end)
        yield _Fields(start, end, timestamp_delta, offset_delta, key, value_size >= 0)
        at = end
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


_native = find_native("OffsetMap")
IS_NATIVE = _native is not None


class NativeOffsetMap:
    """The map in C."""

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
    """An empty map that takes so much memory, and so many keys that this part of it is used."""
    return (NativeOffsetMap if IS_NATIVE else PythonOffsetMap)(memory_bytes, load_factor)
