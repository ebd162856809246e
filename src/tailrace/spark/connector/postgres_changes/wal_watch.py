"""The watch over the log that a slot makes its server keep. Pure, but for the log line."""

import logging

# At the default level of pipelines, only this logger's warnings are shown: a full disk, or a limit of the server, ends
# in lost changes.
log = logging.getLogger("tailrace.spark.data_loss.slot")

_MEGABYTE = 1 << 20


class WalWatch:
    """Warns when a slot retains more than a limit, again at each doubling, and when it is below the limit again."""

    def __init__(self, shown: str, bytes_max: int) -> None:
        self._shown = shown
        self._bytes_max = bytes_max
        self._warned_bytes = 0

    def look(self, retained_bytes: int) -> None:
        """Take the size of the log that the slot retains now."""
        if retained_bytes > self._bytes_max and retained_bytes >= 2 * self._warned_bytes:
            self._warned_bytes = retained_bytes
            log.warning(
                "%s retains %d MB of the server's log, above retained_wal_mb=%d: the flow is behind, or a transaction "
                "is open for long",
                self._shown,
                retained_bytes // _MEGABYTE,
                self._bytes_max // _MEGABYTE,
            )
        elif retained_bytes <= self._bytes_max and self._warned_bytes:
            self._warned_bytes = 0
            log.warning("%s retains %d MB of the server's log again", self._shown, retained_bytes // _MEGABYTE)
