"""Rows of Spark as the tables that a producer takes, one for each topic."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.spark.error import WriteError

_WRITTEN = ("key", "value", "headers", "partition")


def split_by_topic(table: pa.Table, topic: str | None) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each topic, in their order; `topic` is the option, which goes before the column."""
    columns = table.select([name for name in _WRITTEN if name in table.column_names])
    if topic is not None:
        yield topic, columns
        return
    topics = table.column("topic")
    if topics.null_count:
        raise WriteError("a row has no topic: column topic is null there; fill it, or set option topic")
    for name in pc.unique(topics).to_pylist():
        yield name, columns.filter(pc.equal(topics, pa.scalar(name, topics.type)))


def join(batches: list[Any]) -> pa.Table:
    """Some record batches as one table."""
    return pa.Table.from_batches(batches)
