"""Random numbers that do not depend on `random.seed`, which any code in the process can call.

A program that calls `random.seed` on each of many machines, as training programs do, would otherwise have all their
clients wait equally long and choose the same partitions. Each thread has a generator of its own, so the simulator can
seed the one of its thread.
"""

import os
import threading
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.random = Random()


_of_thread = _OfThread()


def generator() -> Random:
    """Return the generator of this thread."""
    return _of_thread.random


def uniform(low: float, high: float) -> float:
    """Return a number between two others."""
    return _of_thread.random.uniform(low, high)


def choice(choices: Sequence[T]) -> T:
    """Return one of some things."""
    return _of_thread.random.choice(choices)


def _seed() -> None:
    _of_thread.random.seed()


os.register_at_fork(after_in_child=_seed)
