"""Writing rows to topics, at least once: a task that is run again writes its rows again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from runnel.spark.option import SinkOptions
from runnel.spark.topic_io import topic_io


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote to each topic."""

    row_counts: dict[str, int] = field(default_factory=dict)


def write_rows(options: SinkOptions, batches: Iterator[Any]) -> Written:
    """Write the rows of a task, given as `pyarrow.RecordBatch`es, and wait until all are acknowledged."""
    with topic_io(options.client).writer(options.topic) as writer:
        for batch in batches:
            writer.write(batch)
        return Written(writer.finish())


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task."""
        return write_rows(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream. Nothing is left to commit, and what was written cannot be taken back."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write the rows of one task of a micro-batch."""
        return write_rows(self._options, iterator)
