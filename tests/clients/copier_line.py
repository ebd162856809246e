"""What the copiers in Python have in common: their values and the lines that they print. `copier.md` says which."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

ABORT_EVERY = 3
GIVE_UP = 3
TRANSACTION_TIMEOUT_MS = 10_000
BATCH_MAX = 50


class Task(NamedTuple):
    """The arguments of a copier."""

    bootstrap: str
    source: str
    target: str
    group: str
    transactional_id: str
    name: str
    partitions: str
    session: str

    @property
    def partition_numbers(self) -> list[int]:
        return [int(number) for number in self.partitions.split(",")]

    @property
    def session_ms(self) -> int:
        return int(self.session)

    def value(self, value: bytes, partition: int, offset: int, number: int) -> bytes:
        """What becomes of a record."""
        return value.upper() + f" {partition} {offset} {self.name} {number}".encode()


def say(word: str, *rest: object) -> None:
    """Print a line, at once."""
    sys.stdout.write(" ".join(map(str, (time.time_ns() // 1000, word, *rest))) + "\n")
    sys.stdout.flush()


def say_offsets(number: int, offsets: Mapping[int, int]) -> None:
    say("offsets", number, *(f"{partition}:{offset}" for partition, offset in offsets.items()))
