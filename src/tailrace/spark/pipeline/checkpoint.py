"""What the checkpoint of a flow tells without Spark: how far the flow has come."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailrace.spark.error import PipelineError
from tailrace.spark.position import Offsets, reported_offsets

_OFFSETS = "offsets"
_COMMITS = "commits"
_NOTHING = "-"  # of a source that had no records yet
_LINES_BEFORE_SOURCES = 2  # the version of the file, and its metadata


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch that a flow has finished."""

    batch_id: int
    finished_at_s: float
    position: Offsets = field(default_factory=dict)
    """The next offset of each partition; of several sources with the same partition, that of the slowest one."""
    sources: tuple[Any, ...] = ()
    """How far each source has been read, as its connector notes it."""


def read_progress(checkpoint: Path) -> Progress | None:
    """Return how far a flow has come; None if it has finished no batch. Raises `PipelineError` for a damaged file."""
    batch_id = _last_batch(checkpoint / _COMMITS)
    if batch_id is None:
        return None
    commit, offsets = (checkpoint / folder / str(batch_id) for folder in (_COMMITS, _OFFSETS))
    position: Offsets = {}
    try:
        lines = offsets.read_text().splitlines()[_LINES_BEFORE_SOURCES:]
        sources = tuple(json.loads(line) if line != _NOTHING else None for line in lines)
        for source in sources:
            for partition, offset in reported_offsets(source).items():
                position[partition] = min(offset, position.get(partition, offset))
        return Progress(batch_id, commit.stat().st_mtime, position, sources)
    except FileNotFoundError:
        return None  # the flow that writes it has just removed it
    except (ValueError, TypeError) as error:
        raise PipelineError(f"the checkpoint file {offsets} cannot be read: {error}") from None


def has_begun(checkpoint: Path) -> bool:
    """Return whether a flow has noted the end of a batch, and so where it goes on."""
    return _last_batch(checkpoint / _OFFSETS) is not None


def unfinished_batch(checkpoint: Path) -> int | None:
    """Return the number of the batch that a flow has begun and not finished; None without one."""
    batch_id = _last_batch(checkpoint / _OFFSETS)
    return None if batch_id == _last_batch(checkpoint / _COMMITS) else batch_id


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The batch that a flow has begun and not finished."""

    batch_id: int
    start: Offsets
    """Partitions that no batch had read before are missing."""
    end: Offsets


def read_unfinished(checkpoint: Path) -> Unfinished | None:
    """Return the batch that a flow has not finished; None without one. Raises `PipelineError` for a damaged file."""
    batch_id = unfinished_batch(checkpoint)
    if batch_id is None:
        return None
    try:
        start = _offsets_of(checkpoint, batch_id - 1) if batch_id else {}
        return Unfinished(batch_id, start, _offsets_of(checkpoint, batch_id))
    except FileNotFoundError:
        return None


def _offsets_of(checkpoint: Path, batch_id: int) -> Offsets:
    path = checkpoint / _OFFSETS / str(batch_id)
    found: Offsets = {}
    try:
        for line in path.read_text().splitlines()[_LINES_BEFORE_SOURCES:]:
            found |= reported_offsets(json.loads(line)) if line != _NOTHING else {}
    except ValueError as error:
        raise PipelineError(f"the checkpoint file {path} cannot be read: {error}") from None
    return found


def _last_batch(folder: Path) -> int | None:
    try:
        return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
    except FileNotFoundError:
        return None
