"""The appending of batches to a file, exactly once.

Before the first line of a batch is written, the length of the file is noted in the checkpoint of the flow. If the batch
comes again because its write was interrupted, the file is first cut to that length. When all lines are on the disk,
that is noted too, and a batch that comes again after this is left out.
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
    """The last batch that was begun, and the length of the file before it."""

    batch_id: int
    start: int
    is_complete: bool = False


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
            start = min(note.start, length) if note is not None and is_repeated else length
            if start < length:
                file.truncate(start)
            write_durably(note_path, json.dumps(asdict(Note(batch_id, start))))
            for text in texts:
                file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ConnectorError(f"batch {batch_id} cannot be appended to {path}: {error.strerror or error}") from error
    write_durably(note_path, json.dumps(asdict(Note(batch_id, start, is_complete=True))))
    return True


def read_note(path: Path) -> Note | None:
    """Return the note of a checkpoint; None if there is none. Raises `PipelineError` for a damaged file."""
    try:
        found = json.loads(path.read_text())
        return Note(int(found["batch_id"]), int(found["start"]), bool(found["is_complete"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
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
