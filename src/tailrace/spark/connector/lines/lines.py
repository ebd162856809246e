"""The lines of one file as the source or the sink of a flow."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Lines(Source, Sink):
    """A file to read or to write line by line; created by `lines`."""

    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_MOST_ONCE)

    path: str
    max_lines: int | None = None
    start: int = 0

    def __str__(self) -> str:
        return f"lines of {self.path}"

    def file(self, place: FlowPlace) -> Path:
        """Return the path of the file."""
        return place.output / self.path

    # --- as a source

    def connect_source(self, place: FlowPlace) -> None:
        path = self.file(place)
        if path.exists() and not path.is_file():
            raise PipelineError(f"{self}: {path} is not a file; for a folder of files, use the connector files")

    def read_place(self, place: FlowPlace) -> str:
        return f"file {self.path}"

    def read(self, start: FlowStart) -> "DataFrame":
        return start.spark.readStream.format(self._register(start)).load()

    def sample(self, start: FlowStart) -> "DataFrame":
        return start.spark.read.format(self._register(start)).load()

    def _register(self, start: FlowStart) -> str:
        from tailrace.spark.connector.lines.stream_reader import data_source

        path = str(self.file(start.place))
        digest = sha256(f"{start.place.flow} {path}".encode()).hexdigest()[:8]
        source = data_source(f"tailrace_lines_{digest}", path, self.max_lines, self.start)
        start.spark.dataSource.register(source)
        return source.name()

    # --- as a sink

    def check_sink(self) -> None:
        for name, is_given in (("max_lines", self.max_lines is not None), ("start", self.start != 0)):
            if is_given:
                raise PipelineError(f"{self} is a sink, and {name}= is for a source")

    def connect_sink(self, place: FlowPlace) -> None:
        path = self.file(place)
        if not path.parent.is_dir():
            raise PipelineError(f"{self}: there is no folder {path.parent}; create it, or correct the path")
        if path.exists() and not path.is_file():
            raise PipelineError(f"{self}: {path} is not a file")

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        if [kind for _, kind in rows.dtypes] not in (["string"], ["binary"]):
            found = ", ".join(f"{name} {kind}" for name, kind in rows.dtypes) or "none"
            raise PipelineError(f"{self}: a line is one column, which is a string, and the result has {found}")
        return rows

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        from tailrace.spark.connector.lines.append import JOINED, append_batch, join_lines
        from tailrace.spark.connector.replay import compute_only

        column = f"`{batch.columns[0]}`"
        joined = batch.selectExpr(f"CAST({column} AS BINARY) AS line").mapInArrow(join_lines, JOINED)
        texts = (bytes(row[0]) for row in joined.toLocalIterator())
        if not append_batch(self.file(place), place.checkpoint, batch_id, texts):
            compute_only(batch)


def lines(path: Any, *, max_lines: int | None = None, start: int = 0) -> Lines:
    """Return the lines of one file as the source or the sink of a flow.

    A path that is not absolute begins at the folder of the pipeline file, or at the one that `--output` names.

    A source has the column `value`, a line of the file without its end. It reads the lines that are there, and those
    that are appended later; the file may also appear later. A batch has at most `max_lines`, or about 16 MiB. A
    new flow begins at the byte `start`.

    A sink appends the only column of the result to the file, a line for each row.
    """
    text = str(path)
    if not text.strip() or "://" in text:
        raise PipelineError("lines() needs the path of a file")
    if max_lines is not None and (not isinstance(max_lines, int) or isinstance(max_lines, bool) or max_lines < 1):
        raise PipelineError(f"lines({text!r}): max_lines={max_lines!r} is not a positive number")
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        raise PipelineError(f"lines({text!r}): start={start!r} is not a position in bytes")
    return Lines(text, max_lines, start)
