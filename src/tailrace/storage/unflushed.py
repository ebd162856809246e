"""The logs of a folder that may need a flush, so that thousands of idle logs cost nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # avoids an import cycle: log, folder, unflushed
    from tailrace.storage.log import Log


class Unflushed:
    """Logs with unsynced sealed segments, and logs with `flush.ms`."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[Log, None] = {}

    def note(self, log: "Log") -> None:
        """Add a log if it may need a flush; on any thread."""
        if log.is_flush_awaited:
            self._logs[log] = None

    def look(self) -> "list[Log]":
        """Return the logs that may need a flush."""
        # Copied in one step, because other threads open logs.
        logs = list(self._logs)
        for log in logs:
            if not log.is_flush_awaited:
                del self._logs[log]
        return [log for log in logs if log in self._logs]
