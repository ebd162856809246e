"""The hash with which Kafka's clients choose the partition of a key.

Python and Java programs that write the same topic put the records of a key into the same partition.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from tailrace.base.limits import HASHED_KEYS_REMEMBERED_MAX
from tailrace.records.native import find_native

_MASK = 0xFFFF_FFFF
_SEED = 0x9747_B28C
_MULTIPLIER = 0x5BD1_E995
_WORD = Struct("<I")


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash, unsigned, with the seed of Kafka's clients."""
    size = len(data)
    tail = size & ~3
    value = (_SEED ^ size) & _MASK
    for (word,) in _WORD.iter_unpack(data[:tail]):
        mixed = (word * _MULTIPLIER) & _MASK
        mixed = ((mixed ^ (mixed >> 24)) * _MULTIPLIER) & _MASK
        value = ((value * _MULTIPLIER) & _MASK) ^ mixed
    if tail < size:
        value ^= int.from_bytes(data[tail:], "little")
        value = (value * _MULTIPLIER) & _MASK
    value = ((value ^ (value >> 13)) * _MULTIPLIER) & _MASK
    return value ^ (value >> 15)


hash_key: Callable[[bytes], int] = find_native("hash_key") or lru_cache(HASHED_KEYS_REMEMBERED_MAX)(murmur2)
"""The same hash of `bytes`, faster: in C if that was built, otherwise with a cache for repeated keys."""


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for this key."""
    return (hash_key(key) & 0x7FFF_FFFF) % partition_count
