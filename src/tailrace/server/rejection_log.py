"""The log lines about batches that the broker rejected, or cannot read from its disk."""

from tailrace.base.text import printable
from tailrace.protocol.errors import ApiError
from tailrace.server.bounded_log import BoundedLog


class RejectionLog:
    """One line for each rejected batch, and for each fetch of a damaged one, up to a bound."""

    def __init__(self) -> None:
        self._log = BoundedLog(lambda count: f"rejected {count} more batches, which are not logged one by one")
        self._damage_log = BoundedLog(lambda count: f"{count} more fetches met damaged batches")

    def add(self, now_ms: int, client: str, partition: str, error: ApiError) -> None:
        """Log that a batch from `client` to `partition` was rejected."""
        reason = printable(error.message or "")
        self._log.warn(now_ms, "rejected a batch from %s to %s: %s (%s)", client, partition, reason, error.code.name)

    def add_damaged(self, now_ms: int, client: str, partition: str, error: ApiError) -> None:
        """Log that a fetch of `client` met a damaged batch of `partition`."""
        self._damage_log.warn(now_ms, "cannot serve %s to %s: %s", partition, client, printable(error.message or ""))
