"""A limit of bytes per second for background work."""

from collections.abc import Callable
from threading import Lock

from tailrace.base.clock import Clock
from tailrace.base.limits import THROTTLE_CREDIT_MS, THROTTLE_REST_MS_MIN
from tailrace.base.token_bucket import TokenBucket


class Throttle:
    """A token bucket in bytes, so that several threads together stay below the rate on average.

    A thread that woke late gets a small credit. Short pauses are merged into longer ones.
    """

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._bucket = TokenBucket(clock.monotonic_ms())
        self._lock = Lock()

    def take(self, size_bytes: int) -> float:
        """Add bytes that were read or written, and return for how many seconds to pause now."""
        with self._lock:
            rate = self._pay()
            self._bucket.take(size_bytes)
            return self._rest_s(rate)

    def rest_s(self) -> float:
        """Return for how many seconds to pause at the current rate."""
        with self._lock:
            return self._rest_s(self._pay())

    def _pay(self) -> float:
        """Reduce the debt by the time since the last call, and return the rate in bytes per second."""
        rate = self._bytes_per_second()
        self._bucket.pay(self._clock.monotonic_ms(), rate, THROTTLE_CREDIT_MS / 1000 * rate)
        return rate

    def _rest_s(self, rate: float) -> float:
        rest_s = self._bucket.rest_ms(rate) / 1000
        return rest_s if rest_s * 1000 >= THROTTLE_REST_MS_MIN else 0.0
