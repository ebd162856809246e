"""The clock interface, which tests and the simulator replace."""

import time
from typing import Protocol


class Clock(Protocol):
    """The clock of a broker."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch. It may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return the milliseconds since an arbitrary start. They never decrease."""
        ...


class SystemClock:
    """The clocks of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
