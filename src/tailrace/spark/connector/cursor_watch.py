"""The order of a cursor column's values, and the warning when the highest one goes back. Pure, but for the log line.

The highest value of a table goes back if its newest rows were deleted, and if the server that answers is behind: a
replica, or the new leader after a failover. If a source followed, it would read the rows above the lower value twice.
"""

import logging
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

# At the default level of pipelines, only this logger's warnings are shown: rows with lower cursors are not read.
log = logging.getLogger("tailrace.spark.data_loss.cursor")


@dataclass(slots=True)
class CursorWatch:
    """Compares values that Spark has cast to text. `shown` names the column and the table."""

    shown: str
    is_number: bool
    _warned: set[str] = field(default_factory=set)

    def is_back(self, before: str, now: str) -> bool:
        """Return whether the highest value has gone back, and warn the first time after each value."""
        if not self._is_below(now, before):
            return False
        if before not in self._warned:
            self._warned.add(before)
            log.warning(
                "the highest %s was %s and is %s now. Only rows above %s are read. If the table was emptied and its "
                "values are used again, reset the flow",
                self.shown,
                before,
                now,
                before,
            )
        return True

    def _is_below(self, one: str, other: str) -> bool:
        if not self.is_number:
            return one < other  # Spark writes dates and times so that they have this order
        try:
            return Decimal(one) < Decimal(other)
        except InvalidOperation:  # NaN, which Spark takes for the highest
            return False
