"""A bound on bytes per second, for work in the background."""

from collections.abc import Callable
from threading import Lock

from runnel.base.clock import Clock
from runnel.base.limits import THROTTLE_CREDIT_MS, THROTTLE_REST_MS_MIN


class Throttle:
    """Hands out time: what several threads take together stays below the rate on average.

    Who rests is woken a little late, and what was missed may be caught up with soon after. Many
    short rests are made one.
    """

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._paid_until_ms: float = clock.monotonic_ms()
        self._lock = Lock()

    def take(self, size_bytes: int) -> float:
        """Note that so many bytes were read or written. Returns for how many seconds to rest now."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            begin_ms = max(self._paid_until_ms, now_ms - THROTTLE_CREDIT_MS)
            self._paid_until_ms = begin_ms + size_bytes * 1000 / self._bytes_per_second()
            rest_ms = self._paid_until_ms - now_ms
            return rest_ms / 1000 if rest_ms >= THROTTLE_REST_MS_MIN else 0.0
