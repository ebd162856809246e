"""Spark's rows as tables for a producer, one for each topic."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.spark.error import WriteError

_WRITTEN = ("key", "value", "headers", "partition")


def split_by_topic(table: pa.Table, topic: str | None) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each topic, in order; the option `topic` overrides the column."""
    columns = table.select([name for name in _WRITTEN if name in table.column_names])
    if topic is not None:
        yield topic, columns
        return
    topics = table.column("topic")
    if topics.null_count:
        raise WriteError("a row has no topic: its column topic is null; set the column, or option topic")
    for name in pc.unique(topics).to_pylist():
        yield name, columns.filter(pc.equal(topics, pa.scalar(name, topics.type)))


def join(batches: list[Any]) -> pa.Table:
    """Return record batches as one table."""
    return pa.Table.from_batches(batches)
