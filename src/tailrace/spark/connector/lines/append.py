"""The appending of batches to a file, exactly once.

Before the first line of a batch is written, the file and its length are noted in the checkpoint of the flow. If the
batch comes again because its write was interrupted, the file is first cut to that length. If the flow writes another
file by then, that is not cut. When all lines are on the disk, that is noted too, and a batch that comes again after
this is left out.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tailrace.spark.connector.durable import write_durably
from tailrace.spark.error import ConnectorError, PipelineError

NOTE = "lines.json"
JOINED = "lines binary"


@dataclass(frozen=True, slots=True)
class Note:
    """The last batch that was begun, its file, and the length of the file before it."""

    batch_id: int
    start: int
    path: str | None = None
    """None in notes of earlier versions, which do not say it."""
    is_complete: bool = False

    def is_of(self, path: Path) -> bool:
        """Return whether the file is the one that the batch was written to."""
        return self.path in (None, str(path))


def append_batch(path: Path, checkpoint: Path, batch_id: int, texts: Iterable[bytes]) -> bool:
    """Append texts to a file; returns False, without reading the texts, if the batch was appended before."""
    note_path = checkpoint / NOTE
    note = read_note(note_path)
    is_repeated = note is not None and note.batch_id == batch_id
    if note is not None and (note.batch_id > batch_id or (is_repeated and note.is_complete)):
        return False
    try:
        with path.open("ab") as file:
            length = file.seek(0, os.SEEK_END)
            start = min(note.start, length) if note is not None and is_repeated and note.is_of(path) else length
            if start < length:
                file.truncate(start)
            write_durably(note_path, json.dumps(asdict(Note(batch_id, start, str(path)))))
            for text in texts:
                file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConnectorError(f"batch {batch_id} cannot be appended to {path}: {error.strerror or error}") from error
    write_durably(note_path, json.dumps(asdict(Note(batch_id, start, str(path), is_complete=True))))
    return True


def read_note(path: Path) -> Note | None:
    """Return the note of a checkpoint; None if there is none. Raises `PipelineError` for a damaged file."""
    try:
        found = json.loads(path.read_text())
        return Note(int(found["batch_id"]), int(found["start"]), found.get("path"), bool(found["is_complete"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise PipelineError(f"the checkpoint file {path} cannot be read; reset the flow") from None


def join_lines(batches: Iterator[Any]) -> Iterator[Any]:
    """Join the rows of each Arrow batch to one text, with an end after each line; a null is an empty line."""
    import pyarrow as pa
    from pyarrow import compute

    for batch in batches:
        if batch.num_rows == 0:
            continue
        column = compute.fill_null(batch.column(0).cast(pa.large_binary()), b"")
        one_list = pa.LargeListArray.from_arrays(pa.array([0, len(column)], pa.int64()), column)
        joined = compute.binary_join(one_list, pa.scalar(b"\n", pa.large_binary()))
        yield pa.RecordBatch.from_arrays([pa.array([joined[0].as_py() + b"\n"], pa.binary())], ["lines"])
