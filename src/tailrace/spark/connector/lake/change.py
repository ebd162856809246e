"""The rows of a batch as changes of a table: which columns are written, which rows delete, which of them come last."""

from typing import TYPE_CHECKING

from tailrace.spark.connector.argument import require_columns
from tailrace.spark.connector.lake.setting import SinkSettings
from tailrace.spark.connector.lake.task import DELETE
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BEFORE, _AFTER, _OP = "before", "after", "op"
_ORDER = "__tailrace_order"
_NUMBER = "__tailrace_number"
_CHANGES = ("c", "r", "u", "d")


def mark_changes(rows: "DataFrame", settings: SinkSettings, sink: object) -> "DataFrame":
    """Return the columns to write, whether a row deletes that of its key, and the origin of the row.

    Raises `PipelineError` if a column is missing.
    """
    from pyspark.sql import functions as f

    if settings.changes is not None:
        return _unwrap(rows, settings, sink)
    require_columns(rows, (*settings.key, *settings.exclude, *settings.partition_by), sink)
    kept = [_quoted(name) for name in rows.columns if name not in (*settings.exclude, ORIGIN)]
    origin = [name for name in rows.columns if name == ORIGIN]
    if not settings.merge_key:
        return rows.select(*kept, *origin)
    delete = f.lit(False)
    if settings.delete_when is not None:
        delete = f.coalesce(f.expr(settings.delete_when).cast("boolean"), f.lit(False))
    return rows.select(*kept, delete.alias(DELETE), *origin)


def _unwrap(rows: "DataFrame", settings: SinkSettings, sink: object) -> "DataFrame":
    """Return the rows in the envelopes of Debezium. A record without one follows a deletion, and changes nothing."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    require_columns(rows, (_BEFORE, _AFTER, _OP), sink)
    after = rows.schema[_AFTER].dataType
    if not isinstance(after, StructType) or rows.schema[_BEFORE].dataType != after:
        raise PipelineError(
            f"{sink}: before and after are not structs with the same columns; give the source a schema with both"
        )
    for name in (*settings.key, *settings.exclude, *settings.partition_by):
        if name not in after.fieldNames():
            raise PipelineError(f"{sink} needs a column {name!r}, and after has {', '.join(after.fieldNames())}")
    text = f"{sink}: the source table was truncated, which a sink for tables does not follow; reset the flow"
    truncated = f.raise_error(f.lit(text))
    is_change = f.when(f.col(_OP) == "t", truncated.cast("boolean")).otherwise(f.col(_OP).isin(*_CHANGES))
    is_delete = f.col(_OP) == "d"
    columns = [
        f.when(is_delete, f.col(f"{_BEFORE}.{_quoted(name)}")).otherwise(f.col(f"{_AFTER}.{_quoted(name)}")).alias(name)
        for name in after.fieldNames()
        if name not in settings.exclude
    ]
    origin = [name for name in rows.columns if name == ORIGIN]
    return rows.where(f.coalesce(is_change, f.lit(False))).select(*columns, is_delete.alias(DELETE), *origin)


def keep_last(rows: "DataFrame", settings: SinkSettings, part_count: int) -> "DataFrame":
    """Return the last change of each key, with the keys divided among tasks.

    The last one is that with the highest topic, partition and offset. Rows whose record is not known, because the flow
    aggregates or joins them, have the order in which tasks return them.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    key = [f.col(_quoted(name)) for name in settings.merge_key]
    numbered = rows.withColumn(_NUMBER, f.monotonically_increasing_id()).withColumn(_ORDER, _order(rows))
    # Rows without a key are refused one by one, so none of them replaces another.
    has_no_key = f.lit(False)
    for column in key:
        has_no_key = has_no_key | column.isNull()
    alone = f.when(has_no_key, f.col(_NUMBER))
    newest = Window.partitionBy(*key, alone).orderBy(f.col(_ORDER).desc(), f.col(_NUMBER).desc())
    last = numbered.repartition(part_count, *key).withColumn(_ORDER, f.row_number().over(newest))
    return last.where(f.col(_ORDER) == 1).drop(_ORDER, _NUMBER)


def _order(rows: "DataFrame") -> "Column":
    from pyspark.sql import functions as f

    if ORIGIN not in rows.columns:
        return f.struct(f.lit(0))
    parts = f.split(f.col(ORIGIN), " ")
    return f.struct(parts[0], parts[1].cast("int"), parts[2].cast("bigint"))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
