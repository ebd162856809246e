"""The fingerprint of what Spark has planned as a batch, by which a sink knows a repeated batch.

Before a batch begins, Spark writes the end position of each source to the checkpoint. A repeated batch has the same
file. If a copy of the checkpoint that is older by one batch is put back, Spark plans a batch of the same number
anew, up to where the sources are by then. Sinks that write exactly once keep the fingerprint with the number.

Times are not included. Spark's file source only counts its batches, and lists their files in a log of its own.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

_LINES_BEFORE_SOURCES = 2  # the version of the file, and its metadata with times and configs
_LENGTH = 32
_LOGGED = "logOffset"
_CHUNK_BYTES = 64 * 1024  # the log of a file source may list millions of files


def read_plan(checkpoint: Path | None, batch_id: int) -> str | None:
    """Return the fingerprint of a batch, which begins with its number; None if the plan cannot be read here."""
    if checkpoint is None:
        return None
    try:
        plan = (checkpoint / "offsets" / str(batch_id)).read_text()
        ends = plan.split("\n")[_LINES_BEFORE_SOURCES:]
        digest = hashlib.sha256("\n".join(ends).encode())
        for logs in _find_logs(checkpoint / "sources", [_log_number(end) for end in ends]):
            digest.update(b"\n")
            for log in logs:
                with log.open("rb") as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        digest.update(chunk)
    except (OSError, ValueError):
        return None
    return f"{batch_id}:{digest.hexdigest()[:_LENGTH]}"


def is_other(noted: str | None, plan: str | None) -> bool:
    """Return whether two fingerprints are those of different batches of the same number.

    Notes of earlier versions of Tailrace have none. If such a version goes on with a note of this one, it changes only
    the number of the batch, so the fingerprint may be that of a batch before it.
    """
    return bool(noted and plan and noted != plan and noted.partition(":")[0] == plan.partition(":")[0])


def _log_number(end: str) -> int | None:
    """Return the number of the files' log for the end of a batch in a source; None if the source has no such log."""
    if _LOGGED not in end:
        return None
    position = json.loads(end)
    number = position.get(_LOGGED) if isinstance(position, dict) else None
    return number if isinstance(number, int) and number >= 0 else None


def _find_logs(sources: Path, numbers: Sequence[int | None]) -> Iterator[list[Path]]:
    """Yield for each end of a batch the files that may be its log; none if it has no number.

    A source that a query reads twice, such as in `rows.union(rows)`, has an end for each occurrence but only one folder
    of logs, and the folders are numbered without repetitions. Then an end may belong to any of the folders.

    Raises `OSError` if Spark has deleted the log, as it does some time after later batches have been planned.
    """
    own = [sources / str(index) for index in range(len(numbers))]
    has_folders = all(number is None or folder.is_dir() for folder, number in zip(own, numbers, strict=True))
    shared = [] if has_folders else sorted(sources.iterdir())
    for folder, number in zip(own, numbers, strict=True):
        if number is None:
            yield []
            continue
        logs = [log for each in ([folder] if has_folders else shared) if (log := _find_log(each, number)) is not None]
        if not logs:
            raise FileNotFoundError(f"no source in {sources} has the log {number}")
        yield logs


def _find_log(folder: Path, number: int) -> Path | None:
    """Return the log of this number, which may be compacted with those before it; None if the folder has none."""
    return next((path for name in (f"{number}.compact", f"{number}") if (path := folder / name).exists()), None)
