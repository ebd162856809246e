"""The offsets of topics at which a batch ends, from the checkpoint of its flow."""

import json
from pathlib import Path

from tailrace.spark.error import PipelineError
from tailrace.spark.position import Offsets, reported_offsets

_LINES_BEFORE_SOURCES = 2  # the version of the file, and its metadata
_NOTHING = "-"  # of a source that had no records yet


def read_batch_offsets(checkpoint: Path, batch_id: int) -> Offsets:
    """Return the offset after the last record of each partition. Spark has written them before the batch begins.

    If several sources read a partition, the offset is that of the slowest one.
    """
    path = checkpoint / "offsets" / str(batch_id)
    try:
        lines = path.read_text().splitlines()[_LINES_BEFORE_SOURCES:]
        sources = [json.loads(line) for line in lines if line != _NOTHING]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None
    found: Offsets = {}
    for source in sources:
        for partition, offset in reported_offsets(source).items():
            found[partition] = min(offset, found.get(partition, offset))
    return found
