"""Time as an argument, so that tests and the simulator can own it."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the broker knows of time."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
