"""Which partition a record goes to, decided as Kafka's Java producer decides.

A key is hashed with murmur2, so that Python and Java programs that write one topic put a
key's records into one partition. Records without a key stick to a partition until about a
batch of them is there and then move on (KIP-480, KIP-794), because few full batches cost
less than many thin ones.
"""

import random
from collections.abc import Callable, Sequence
from struct import Struct

_MASK = 0xFFFF_FFFF
_SEED = 0x9747_B28C
_MULTIPLIER = 0x5BD1_E995
_WORD = Struct("<I")


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash, unsigned, with the seed of Kafka's clients."""
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


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that every client with Kafka's default partitioner chooses for this key."""
    return (murmur2(key) & 0x7FFF_FFFF) % partition_count


class StickyPartition:
    """The partition that records of one topic without a key go to for now."""

    def __init__(self, stay_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._stay_bytes = stay_bytes
        self._choose = choose
        self._current = -1
        self._written_bytes = 0

    def choose(self, partitions: Sequence[int], size_bytes: int) -> int:
        """The partition for a record of this size, out of those that have a leader."""
        if self._written_bytes >= self._stay_bytes or self._current not in partitions:
            others = [partition for partition in partitions if partition != self._current]
            self._current = self._choose(others or partitions)
            self._written_bytes = 0
        self._written_bytes += size_bytes
        return self._current
