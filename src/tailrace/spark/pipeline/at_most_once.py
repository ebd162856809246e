"""Delivery at most once: a batch whose write has begun is never written again.

Spark repeats a batch that it does not know to be finished. So the flow notes in its checkpoint that it begins a batch
before it writes the first row, and leaves out a batch that is noted.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.spark.connector.durable import sync_batch, write_durably
from tailrace.spark.connector.replay import compute_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("tailrace.spark.pipeline")

BEGUN = "begun_batch"


def at_most_once(
    write: "Callable[[DataFrame, int], None]", connect: Callable[[], None], flow: str, checkpoint: Path
) -> "Callable[[DataFrame, int], None]":
    """Return a function that writes a batch unless its write has begun before.

    `connect` raises an error if the sink cannot be reached now, so that no batch is given up for that.
    """

    def write_once(batch: "DataFrame", batch_id: int) -> None:
        if batch_id <= _last_begun(checkpoint):
            log.warning("flow %s leaves out batch %d, whose write was interrupted", flow, batch_id)
            compute_only(batch)
            return
        connect()
        sync_batch(checkpoint, batch_id)
        write_durably(checkpoint / BEGUN, f"{batch_id}\n")
        write(batch, batch_id)

    return write_once


def _last_begun(checkpoint: Path) -> int:
    try:
        return int((checkpoint / BEGUN).read_text())
    except FileNotFoundError:
        return -1
