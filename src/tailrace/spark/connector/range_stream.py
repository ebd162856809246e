"""A stream of ranges: one row in each batch, with the bounds of what a batch source is to read.

Spark reads some systems only as a batch. A join of this stream with such a batch is a stream: each start of the flow
names a new upper bound, and the lower one is that of the last batch in the checkpoint.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.spark.connector.cursor_watch import CursorWatch

LOW = "tailrace_low"
HIGH = "tailrace_high"

Position = dict[str, Any]


class Range(InputPartition):
    """The bounds of a batch."""

    def __init__(self, low: str | None, high: str | None) -> None:
        self.low = low
        self.high = high


class RangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads up to a bound that is fixed when the flow starts, or stands in a file that the driver writes again."""

    def __init__(self, high: str, path: Path | None = None, watch: CursorWatch | None = None) -> None:
        self._high = high
        self._watch = watch
        self._path = path
        self._is_fixed = path is None

    def initialOffset(self) -> Position:
        """Return the position below all rows."""
        return {"high": None}

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the bound of the start."""
        self._is_fixed = True

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        """Return the bound; `start` if there are no rows yet, or if the bound is below it."""
        if self._path is not None and not self._is_fixed:
            self._high = self._path.read_text()
        before = start["high"]
        if not self._high or (before and self._watch is not None and self._watch.is_back(before, self._high)):
            return start
        return {"high": self._high}

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        """Return the range of a batch."""
        return [Range(start["high"], end["high"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the row with the bounds."""
        assert isinstance(partition, Range)  # noqa: S101 - Spark hands back what `partitions` returned
        yield (partition.low, partition.high)


def range_source(name: str, high: str, path: Path | None = None, watch: CursorWatch | None = None) -> type[DataSource]:
    """Return a data source of this name, for a flow that starts now; later bounds are in the file `path`.

    With a `watch`, the bound never goes back.
    """

    class Ranges(DataSource):
        bound: ClassVar[tuple[str, Path | None, CursorWatch | None]] = (high, path, watch)

        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return f"{LOW} string, {HIGH} string"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return RangeReader(*self.bound)

    return Ranges
