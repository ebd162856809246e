"""The memory that an action takes, in a process whose other threads allocate, too.

The brokers of other tests have threads of this process. What the action itself takes, it takes each time, so the
smallest of several measurements is the closest to it.
"""

import tracemalloc
from collections.abc import Callable

import psutil

ATTEMPTS = 5
_PROCESS = psutil.Process()


def least(measure: Callable[[], int], enough_bytes: int) -> int:
    """Measure until less than this much memory is found, or five times; return the smallest result.

    The measured memory must not come from what an earlier attempt gave back to the allocator.
    """
    found: list[int] = []
    while len(found) < ATTEMPTS and not (found and found[-1] < enough_bytes):
        found.append(measure())
    return min(found)


def least_peak(action: Callable[[], object], enough_bytes: int) -> int:
    """Return the least memory of Python objects that an action had at its peak."""
    return least(lambda: _traced_peak(action), enough_bytes)


def least_growth(action: Callable[[], object], enough_bytes: int) -> int:
    """Return the least resident memory that an action left behind."""

    def grown() -> int:
        before = resident_bytes()
        action()
        return resident_bytes() - before

    return least(grown, enough_bytes)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    size: int = _PROCESS.memory_info().rss
    return size


def _traced_peak(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
