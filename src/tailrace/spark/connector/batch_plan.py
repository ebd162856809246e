"""The fingerprint of what Spark has planned as a batch, by which a sink knows a repeated batch.

Before a batch begins, Spark writes to the checkpoint up to where the batch reads each source. A repeated batch has the
same file. If a copy of the checkpoint that is older by one batch is put back, Spark plans a batch of the same number
anew, up to where the sources are by then. Sinks that write exactly once keep the fingerprint with the number.

Times are no part of it. Spark's file source only counts its batches, and lists their files in a log of its own.
"""

import hashlib
import json
from pathlib import Path

_LINES_BEFORE_SOURCES = 2  # the version of the file, and its metadata with times and configs
_LENGTH = 32
_LOGGED = "logOffset"


def read_plan(checkpoint: Path | None, batch_id: int) -> str | None:
    """Return the fingerprint of a batch, which begins with its number; None if the plan cannot be read here."""
    if checkpoint is None:
        return None
    try:
        plan = (checkpoint / "offsets" / str(batch_id)).read_text()
        ends = plan.split("\n")[_LINES_BEFORE_SOURCES:]
        files = [_read_logged(checkpoint / "sources" / str(index), end) for index, end in enumerate(ends)]
    except (OSError, ValueError):
        return None
    digest = hashlib.sha256("\n".join([*ends, *files]).encode()).hexdigest()
    return f"{batch_id}:{digest[:_LENGTH]}"


def is_other(noted: str | None, plan: str | None) -> bool:
    """Return whether two fingerprints are those of different batches of the same number.

    Notes of earlier versions of Tailrace have none. If such a version goes on with a note of this one, it changes only
    the number of the batch, so the fingerprint may be that of a batch before it.
    """
    return bool(noted and plan and noted != plan and noted.partition(":")[0] == plan.partition(":")[0])


def _read_logged(log: Path, end: str) -> str:
    """Return what the log of a file source has for the end of a batch; empty for other sources.

    Raises `OSError` if Spark has deleted it, as it does some time after later batches have been planned.
    """
    if _LOGGED not in end:
        return ""
    position = json.loads(end)
    number = position.get(_LOGGED) if isinstance(position, dict) else None
    if not isinstance(number, int) or number < 0:
        return ""
    compacted = log / f"{number}.compact"
    return (compacted if compacted.exists() else log / str(number)).read_text()
