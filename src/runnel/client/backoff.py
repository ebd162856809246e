"""How long to wait before trying again, and until when (KIP-580)."""

import random
import time
from collections.abc import Callable

_JITTER = 0.2  # so that clients that failed together do not come back together
_EXPONENT_MAX = 16  # beyond it every wait is the longest one


class Backoff:
    """Waits that double from `first_ms` to `max_ms`, each a little random."""

    def __init__(self, first_ms: int, max_ms: int, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._uniform = uniform

    def wait_s(self, failure_count: int) -> float:
        """How long to wait after this many failures in a row, one or more."""
        wait_ms = self._first_ms << min(max(failure_count, 1) - 1, _EXPONENT_MAX)
        return min(wait_ms, self._max_ms) * self._uniform(1 - _JITTER, 1 + _JITTER) / 1000


NEXT_TRANSACTION_BACKOFF = Backoff(first_ms=2, max_ms=100)
"""For a coordinator that is still ending the transaction before, which takes no longer than a few appends."""


class Deadline:
    """A point in time that several waits share."""

    def __init__(self, timeout_ms: float, now_s: Callable[[], float] | None = None) -> None:
        self._now_s = now_s or time.monotonic
        self._ends_at_s = self._now_s() + timeout_ms / 1000

    @property
    def left_s(self) -> float:
        """How much time is left, never negative."""
        return max(0.0, self._ends_at_s - self._now_s())

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0
