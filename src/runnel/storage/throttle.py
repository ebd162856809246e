"""A bound on bytes per second, for work in the background."""

from collections.abc import Callable
from threading import Lock

from runnel.base.clock import Clock


class Throttle:
    """Hands out time. What several threads take together stays below the rate, counted from when they begin."""

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._free_at_ms = 0.0
        self._lock = Lock()

    def take(self, size_bytes: int) -> float:
        """Note that so many bytes were read or written. Returns for how many seconds to rest now."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            self._free_at_ms = max(self._free_at_ms, now_ms) + size_bytes * 1000 / self._bytes_per_second()
            return (self._free_at_ms - now_ms) / 1000
