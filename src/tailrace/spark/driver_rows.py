"""Small micro-batches, whose rows the driver reads itself.

A task of a Python source costs some 50 ms, whatever it reads, and the micro-batches of a quick stream are small. Spark
can take the rows from the Python process that plans the micro-batch, together with the tasks; the only task then runs
in Java. It does so for readers that it has wrapped in a class of its own (`SimpleDataSourceStreamReader`): after each
call of `partitions` it checks for that class, and calls `getCache`. `DriverRows` claims to be of that class only while
it has rows. All other calls find an ordinary reader, because Spark asks a wrapped one neither for limits nor for lag.
With a pyspark that has no such class, tasks read all rows.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from tailrace.base.limits import SPARK_DRIVER_ROWS_BYTES_MAX
from tailrace.spark.error import SparkSourceError

_WRAPPER: type | None
try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _WRAPPER
except ImportError:
    _WRAPPER = None


class DriverRows(DataSourceStreamReader):
    """A reader that can hand over the rows of a micro-batch with its only task."""

    _rows: list[Any] | None = None

    def hand_over(self, rows: list[Any] | None) -> None:
        """Set the rows of the micro-batch that is being planned; with None or no rows, its task reads them."""
        self._rows = rows if rows and _WRAPPER is not None else None

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
        """Return the rows of the micro-batch that was just planned, once."""
        rows, self._rows = self._rows, None
        return None if rows is None else iter(rows)

    @property
    def __class__(self) -> Any:
        """Spark's class for readers with rows while there are some."""
        return type(self) if self._rows is None else _WRAPPER

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("the class of a reader cannot be changed")


def read_rows(batches: Iterable[Any]) -> list[Any] | None:
    """Return all `pyarrow.RecordBatch`es, or None if there are too many bytes or reading fails.

    The task then reads again: it may wait longer, and its errors are reported like those of any other task.
    """
    rows, size_bytes = [], 0
    with closing(iter(batches)) as reading:  # type: ignore[type-var]
        try:
            for batch in reading:
                size_bytes += batch.nbytes
                if size_bytes > SPARK_DRIVER_ROWS_BYTES_MAX:
                    return None
                rows.append(batch)
        except SparkSourceError:
            return None
    return rows
