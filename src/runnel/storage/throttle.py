"""A bound on bytes per second, for work in the background."""

from collections.abc import Callable
from threading import Lock

from runnel.base.clock import Clock
from runnel.base.limits import THROTTLE_CREDIT_MS, THROTTLE_REST_MS_MIN


class Throttle:
    """A debt in bytes that is paid off at the rate: what several threads take together stays below it on average.

    The debt is in bytes, and not in time, so a rate that changes counts at once, also for what was taken before. A
    thread that was woken late may catch up with a little soon after. Many short rests are made one.
    """

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._debt_bytes = 0.0
        self._paid_at_ms: float = clock.monotonic_ms()
        self._lock = Lock()

    def take(self, size_bytes: int) -> float:
        """Note that so many bytes were read or written, and return for how many seconds to rest now."""
        with self._lock:
            rate = self._pay()
            self._debt_bytes += size_bytes
            return self._rest_s(rate)

    def rest_s(self) -> float:
        """Return for how many seconds to rest at the rate of now."""
        with self._lock:
            return self._rest_s(self._pay())

    def _pay(self) -> float:
        """Pay off what the time since the last call is worth, and return the rate in bytes per second."""
        rate = self._bytes_per_second()
        now_ms = self._clock.monotonic_ms()
        paid_bytes = (now_ms - self._paid_at_ms) / 1000 * rate
        self._debt_bytes = max(self._debt_bytes - paid_bytes, -THROTTLE_CREDIT_MS / 1000 * rate)
        self._paid_at_ms = now_ms
        return rate

    def _rest_s(self, rate: float) -> float:
        rest_s = self._debt_bytes / rate
        return rest_s if rest_s * 1000 >= THROTTLE_REST_MS_MIN else 0.0
