"""Waits between retries, and deadlines (KIP-580)."""

import time
from collections.abc import Callable

from tailrace.base import chance

_JITTER = 0.2  # spreads clients that failed at the same time
_EXPONENT_MAX = 16  # beyond it every wait is `max_ms`


class Backoff:
    """Waits that double from `first_ms` to `max_ms`, with some jitter."""

    def __init__(self, first_ms: int, max_ms: int, uniform: Callable[[float, float], float] = chance.uniform) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._uniform = uniform

    def wait_s(self, failure_count: int) -> float:
        """Return how long to wait after this many failures in a row, at least one."""
        wait_ms = self._first_ms << min(max(failure_count, 1) - 1, _EXPONENT_MAX)
        return min(wait_ms, self._max_ms) * self._uniform(1 - _JITTER, 1 + _JITTER) / 1000


NEXT_TRANSACTION_BACKOFF = Backoff(first_ms=2, max_ms=100)
"""Waits for a coordinator that is still completing the previous transaction, which takes a few appends."""


class Deadline:
    """A point in time that several waits share."""

    def __init__(self, timeout_ms: float, now_s: Callable[[], float] | None = None) -> None:
        self._now_s = now_s or time.monotonic
        self._ends_at_s = self._now_s() + timeout_ms / 1000

    @property
    def left_s(self) -> float:
        """The time that is left, never negative."""
        return max(0.0, self._ends_at_s - self._now_s())

    @property
    def is_over(self) -> bool:
        return self.left_s == 0.0
