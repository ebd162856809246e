"""The note of a flow's delivery, in its checkpoint: by which rules the batch that was interrupted has been written.

A sink recognises a batch that comes again by what it noted when it wrote the batch exactly once, and a flow with
delivery at most once by what it noted before. A batch that was begun with another delivery has no such note, and its
rows would be written twice.
"""

from pathlib import Path

from tailrace.spark.connector.base import Delivery
from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.checkpoint import unfinished_batch

_FILE = "delivery"


def check_delivery(checkpoint: Path, delivery: Delivery) -> None:
    """Raise `PipelineError` if a flow would write twice what it has begun to write with another delivery."""
    before = _read(checkpoint)
    if before in (None, delivery.value) or delivery is Delivery.AT_LEAST_ONCE:
        return
    if (batch_id := unfinished_batch(checkpoint)) is None:
        return
    raise PipelineError(
        f"delivery={delivery.value!r}: batch {batch_id} was interrupted while the delivery was {before}, and would be "
        f"written again; run the flow with delivery={before!r} and --once to finish the batch, then change the delivery"
    )


def note_delivery(checkpoint: Path, delivery: Delivery) -> None:
    """Note the delivery of a flow when it starts, unless that is noted."""
    if _read(checkpoint) != delivery.value:
        write_durably(checkpoint / _FILE, f"{delivery.value}\n")


def _read(checkpoint: Path) -> str | None:
    try:
        return (checkpoint / _FILE).read_text().strip()
    except FileNotFoundError:
        return None
