"""Which partition a record goes to, decided as Kafka's Java producer decides.

A key is hashed (`runnel.records.murmur2`). Records without a key stick to a partition until
about a batch of them is there and then move on (KIP-480, KIP-794), because few full batches
cost less than many thin ones.
"""

import random
from collections.abc import Callable, Sequence


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
