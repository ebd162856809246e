"""The memory that an action takes, in a process whose other threads allocate, too."""

import tracemalloc
from collections.abc import Callable

ATTEMPTS = 5


def least_peak(action: Callable[[], object], enough_bytes: int) -> int:
    """Run an action until it takes less than this much memory, or five times; return the smallest peak.

    The brokers of other tests have threads of this process. What the action itself takes, it takes each time.
    """
    return min(_peaks(action, enough_bytes))


def _peaks(action: Callable[[], object], enough_bytes: int) -> list[int]:
    peaks: list[int] = []
    while len(peaks) < ATTEMPTS and not (peaks and peaks[-1] < enough_bytes):
        tracemalloc.start()
        try:
            action()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return peaks
