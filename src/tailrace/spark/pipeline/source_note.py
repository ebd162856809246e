"""The note of what a flow reads, in its checkpoint: the positions there are positions in this and in nothing else.

A position in one file or table means nothing in another. If the pipeline file names another source, a flow that went
on from its checkpoint would leave out the beginning of the new source in silence. Topics need no note, because their
positions have their names.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.checkpoint import has_begun

_FILE = "sources.json"

Places = Sequence[str | None]
"""What each source of a flow reads, as `Source.read_place` says."""


def check_sources(checkpoint: Path, places: Places) -> None:
    """Raise `PipelineError` if the checkpoint of a flow has a position elsewhere than in what the flow reads."""
    noted = _read(checkpoint / _FILE)
    if noted is None or not has_begun(checkpoint):
        return
    for before, now in zip(noted, places, strict=False):  # Spark refuses another number of sources
        if before != now:
            raise PipelineError(
                f"the checkpoint has a position in {before or 'a topic'}, and the source is {now or 'another one'} "
                "now; reset the flow to read the new source from its start, or give the flow another name"
            )


def note_sources(checkpoint: Path, places: Places) -> None:
    """Note what a flow reads when it starts, unless that is noted."""
    path, found = checkpoint / _FILE, list(places)
    if _read(path) != found:
        write_durably(path, json.dumps(found))


def _read(path: Path) -> list[str | None] | None:
    try:
        found: list[str | None] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None
    return found
