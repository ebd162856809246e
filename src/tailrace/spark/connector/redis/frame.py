"""The conversion between Redis entries and rows, by expressions of Spark.

Redis has only texts. A column of a simple type is written as Spark casts it to a text, a timestamp in ISO 8601, and a
struct, an array or a map as JSON; a null is left out. Reading does the opposite, as the schema says.
"""

import re
from typing import TYPE_CHECKING

from tailrace.spark.connector.argument import require_columns
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.wrong_row import reject_wrong
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

KEY = "__key"
"""The column with the key of the hash, beside the columns of the function."""

PLACE = ("stream", "id", "timestamp")
"""The columns of an entry beside its fields."""

MISFIT = "the field does not fit its type"

_WRONG = "__wrong"
_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"


def template_columns(template: str) -> list[str]:
    """Return the columns that a template such as "user:{id}" names."""
    return _TEMPLATE.findall(template)


def decode(
    entries: "DataFrame", schema: "StructType", include: tuple[str, ...], rejects: Rejects | None
) -> "DataFrame":
    """Return the fields of entries as the columns of a schema, and columns of the entry beside them.

    Without `rejects`, a field that does not fit its type is null.
    """
    from pyspark.sql.functions import coalesce, col, concat_ws, lit, to_json, transform_values, when

    values = {field.name: _decoded(col("fields")[field.name], field.dataType) for field in schema.fields}
    columns = [*(value.alias(name) for name, value in values.items()), *map(col, include)]
    if rejects is None or not values:
        return entries.select(*columns)
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    wrong = [
        when(col("fields")[name].isNotNull() & value.isNull(), lit(f"field {name} ({kinds[name]})"))
        for name, value in values.items()
    ]
    marked = entries.withColumn(_WRONG, coalesce(*wrong))
    place = concat_ws(" ", lit("stream"), col("stream"), lit("id"), col("id"), col(_WRONG))
    texts = to_json(transform_values(col("fields"), lambda _, value: value.cast("string")))
    return reject_wrong(marked, col(_WRONG).isNotNull(), place, texts, MISFIT, rejects).select(*columns)


def _decoded(raw: "Column", kind: "DataType") -> "Column":
    from pyspark.sql.functions import from_json
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(kind, BinaryType):
        return raw
    text = raw.cast("string")
    if isinstance(kind, StringType):
        return text
    return from_json(text, kind) if isinstance(kind, ArrayType | MapType | StructType) else text.try_cast(kind)


def encode(rows: "DataFrame", template: str | None, sink: object) -> "DataFrame":
    """Return all columns as bytes, after the key of the hash if there is a template."""
    from pyspark.sql.functions import col, concat, lit

    columns = [_encoded(col(_quoted(field.name)), field.dataType).alias(field.name) for field in rows.schema.fields]
    if template is None:
        return rows.select(*columns)
    names = template_columns(template)
    require_columns(rows, names, sink)
    if KEY in rows.columns:
        raise PipelineError(f"{sink}: the result has a column {KEY}; rename it")
    texts = _TEMPLATE.split(template)  # a literal part, a column, a literal part and so on
    parts = [col(_quoted(text)).cast("string") if index % 2 else lit(text) for index, text in enumerate(texts)]
    return rows.select(concat(*parts).cast("binary").alias(KEY), *columns)


def _encoded(column: "Column", kind: "DataType") -> "Column":
    from pyspark.sql.functions import date_format, to_json
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType

    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, ArrayType | MapType | StructType):
        return to_json(column).cast("binary")
    if isinstance(kind, TimestampType):
        return date_format(column, _TIME_FORMAT).cast("binary")
    return column.cast("string").cast("binary")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
