"""The logs of a folder that have to be looked at for flushes, so that thousands of idle ones cost nothing."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # logs know their folder, which knows this
    from runnel.storage.log import Log


class Unflushed:
    """Logs with sealed segments that are not synced yet, and those for which `flush.ms` is set."""

    __slots__ = ("_logs",)

    def __init__(self) -> None:
        self._logs: dict[Log, None] = {}

    def note(self, log: "Log") -> None:
        """Look at a log from now on if it may have to be flushed; on any thread."""
        if log.is_flush_awaited:
            self._logs[log] = None

    def look(self) -> "list[Log]":
        """The logs that may have to be flushed."""
        # Copied in one step, because logs are opened in other threads.
        logs = list(self._logs)
        for log in logs:
            if not log.is_flush_awaited:
                del self._logs[log]
        return [log for log in logs if log in self._logs]
