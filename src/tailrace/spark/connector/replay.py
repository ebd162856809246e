"""Batches that come again: how a sink recognises one, and what it does with one that it has written before."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.spark.connector.batch_plan import is_other
from tailrace.spark.error import ConnectorError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_QUERY = "metadata"


def has_query(checkpoint: Path) -> bool:
    """Return whether a checkpoint has the id of a streaming query, so that the query may have begun a batch."""
    return (checkpoint / _QUERY).exists()


def read_query_id(checkpoint: Path) -> str:
    """Return the id of the streaming query, which Spark has written to the checkpoint before the first batch."""
    path = checkpoint / _QUERY
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None


def is_repeated(
    last: int | None, batch_id: int, flow: str, sink: object, noted: str | None = None, plan: str | None = None
) -> bool:
    """Return whether a sink that has the batches of a query up to `last` has this one.

    `noted` is the fingerprint that the sink has of its last batch, and `plan` that of this one. Spark repeats only the
    last batch, as it was planned. Raises `ConnectorError` if the sink has later ones, or another one of this number:
    then an older copy of the checkpoint was put back, or the disk has lost the newest files. Batches of the same number
    have other rows now, and would be left out.
    """
    if last is None or last < batch_id:
        return False
    if last > batch_id:
        there = f"it goes on with batch {batch_id}, and {sink} has batch {last}"
        lost = f"Batches {batch_id} to {last} would be left out, although they have other rows"
    elif is_other(noted, plan):
        there = f"it has planned batch {batch_id} anew, and {sink} has another batch {batch_id}"
        lost = "This batch would be left out, although it has other rows"
    else:
        return True
    raise ConnectorError(
        f"the checkpoint of flow {flow} is older than what it has written: {there}. {lost}: put the newer checkpoint "
        "back, or reset the flow, which writes all rows again"
    )


def compute_only(batch: "DataFrame") -> None:
    """Compute a batch without writing it.

    A flow with windows, joins or deduplication changes its state when its rows are computed. If a batch were left out,
    its changes would be missing, and Spark would refuse to go on.
    """
    batch.write.format("noop").mode("overwrite").save()
