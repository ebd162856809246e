"""The reaction to entries that were deleted before the query read them."""

import logging

from tailrace.spark.error import DataLossError

log = logging.getLogger(__name__)


def report_loss(what: str, *, is_failure: bool) -> None:
    """Raise `DataLossError`, or log a warning and let the query continue."""
    if is_failure:
        raise DataLossError(f'{what}. Use redis(…, data_loss="warn") to continue with the remaining entries')
    log.warning('%s. The query continues with the remaining entries, because of data_loss="warn"', what)
