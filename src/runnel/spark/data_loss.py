"""What to do when records are gone before the query has read them."""

import logging
from dataclasses import dataclass

from runnel.spark.error import DataLossError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loss:
    """Stops the query, or only says so, as failOnDataLoss has it."""

    is_failure: bool = True

    def report(self, what: str) -> None:
        """Raise `DataLossError`, or warn and return so that the query goes on with what is left."""
        if self.is_failure:
            raise DataLossError(f"{what}. Set option failOnDataLoss to false to go on with what is left")
        log.warning("%s. The query goes on with what is left, because failOnDataLoss is false", what)
