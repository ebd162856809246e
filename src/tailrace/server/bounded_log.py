"""Log lines that clients can cause, of which a flooding client gets only so many."""

import logging
from collections.abc import Callable

from tailrace.base.limits import REJECTION_LINES_MAX, REJECTION_WINDOW_MS

log = logging.getLogger("tailrace.server")


class BoundedLog:
    """Warnings of one kind, up to a bound for each window of time; the rest is counted."""

    def __init__(self, tell_rest: Callable[[int], str], lines_max: int = REJECTION_LINES_MAX) -> None:
        """`tell_rest` returns the line for a number of warnings that were not logged."""
        self._tell_rest = tell_rest
        self._lines_max = lines_max
        self._window_start_ms = 0
        self._line_count = 0
        self._unlogged_count = 0

    def warn(self, now_ms: int, text: str, *arguments: object) -> None:
        """Log a warning, or count it."""
        if not 0 <= now_ms - self._window_start_ms < REJECTION_WINDOW_MS:
            self._begin_window(now_ms)
        if self._line_count >= self._lines_max:
            self._unlogged_count += 1
            return
        self._line_count += 1
        log.warning(text, *arguments)

    def _begin_window(self, now_ms: int) -> None:
        if self._unlogged_count:
            log.warning("%s", self._tell_rest(self._unlogged_count))
        self._window_start_ms = now_ms
        self._line_count = self._unlogged_count = 0
