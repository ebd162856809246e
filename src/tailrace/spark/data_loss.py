"""The reaction to records that were deleted before the query read them."""

import logging
from dataclasses import dataclass

from tailrace.spark.error import DataLossError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loss:
    """Fails the query or logs a warning, depending on failOnDataLoss."""

    is_failure: bool = True

    def report(self, what: str) -> None:
        """Raise `DataLossError`, or log a warning and let the query continue."""
        if self.is_failure:
            raise DataLossError(f"{what}. Set option failOnDataLoss to false to continue with the remaining records")
        log.warning("%s. The query continues with the remaining records, because failOnDataLoss is false", what)
