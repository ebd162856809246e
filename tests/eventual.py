"""What becomes true a moment after the answer to a change."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0


def eventually(look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Look again until it is as wanted or a minute is over; return what was seen last.

    A change that the controller has confirmed reaches a broker's own view a moment later.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        seen = look()
        if wanted(seen) or time.monotonic() > deadline_s:
            return seen
        time.sleep(0.02)
