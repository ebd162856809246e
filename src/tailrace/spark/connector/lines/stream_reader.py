"""The reader of a growing file in micro-batches: one task reads the lines of each batch, in their order."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.spark.connector.lines.position import GrowingFile

COLUMNS = "value string"
_POSITION = "position"
_ROWS_MAX = 10_000
_SAMPLE_ROWS = 100


class ByteRange(InputPartition):
    """Whole lines of the file, by their bytes."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class LineStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads whole lines, in the order of the file."""

    def __init__(self, file: GrowingFile, start: int = 0) -> None:
        self._file = file
        self._start = start
        self._until: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new flow begins."""
        return {_POSITION: self._start}

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` if no line is complete yet."""
        return {_POSITION: self._file.find_end(int(start[_POSITION]), self._until)}

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the lines that exist now."""
        self._until = self._file.size()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the length of the file, for the progress report."""
        return {_POSITION: self._file.size()}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the only task of a batch."""
        return [ByteRange(int(start[_POSITION]), int(end[_POSITION]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the lines of a batch as Arrow batches."""
        assert isinstance(partition, ByteRange)  # noqa: S101 - Spark hands back what `partitions` returned
        if partition.end > partition.start:
            yield from split_lines(self._file.read(partition.start, partition.end))


class SampleReader(DataSourceReader):
    """Reads the last lines of the file as a batch."""

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the lines as Arrow batches."""
        size = self._file.size()
        start = max(0, size - self._file.batch_bytes)
        if size == 0:
            return
        found = list(split_lines(self._file.read(start, size)))
        if found:
            newest = pa.Table.from_batches(found)
            yield from newest.slice(max(0, newest.num_rows - _SAMPLE_ROWS)).to_batches()


def split_lines(found: bytes) -> Iterator[Any]:
    """Return the lines of a text, of which the last one may lack its end, as Arrow batches.

    Lines end as Java's readers take it: with a line feed, a carriage return, or both. What is not UTF-8 becomes the
    replacement character, as in Java.
    """
    if b"\r" in found:
        found = found.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    text = found.decode("utf-8", "replace").removesuffix("\n")
    split = compute.split_pattern(pa.array([text], pa.large_string()), "\n")
    values = split.flatten().cast(pa.string())
    for start in range(0, len(values), _ROWS_MAX):
        yield pa.RecordBatch.from_arrays([values.slice(start, _ROWS_MAX)], ["value"])


def data_source(name: str, path: str, max_lines: int | None, start: int = 0) -> type[DataSource]:
    """Return the data source of one flow."""
    file = GrowingFile(Path(path), max_lines)

    class LinesData(DataSource):
        """The lines that one flow reads."""

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return COLUMNS

        def streamReader(self, schema: StructType) -> LineStreamReader:
            return LineStreamReader(file, start)

        def reader(self, schema: StructType) -> SampleReader:
            return SampleReader(file)

    return LinesData
