"""Records as rows and rows as records: JSON values decoded by a schema, and rows encoded as JSON."""

from typing import TYPE_CHECKING

from runnel.spark.column import COLUMN_TYPES
from runnel.spark.pipeline.cause import clean, shorten
from runnel.spark.pipeline.endpoint import Encoding, Malformed, Parquet, Topic
from runnel.spark.pipeline.error import PipelineError
from runnel.spark.pipeline.plan import VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_DECODED = "__decoded"
_MALFORMED = "__malformed"


def decode(rows: "DataFrame", source: Topic) -> "DataFrame":
    """The rows of a reader as the function gets them."""
    if source.schema is None:
        return rows
    from pyspark.sql.functions import col, from_json
    from pyspark.sql.types import StringType, StructField, StructType

    schema = read_schema(source)
    malformed = source.malformed or Malformed.FAIL
    options = {"mode": "FAILFAST" if malformed is Malformed.FAIL else "PERMISSIVE"}
    if malformed is Malformed.DROP:
        schema = StructType([*schema.fields, StructField(_MALFORMED, StringType())])
        options["columnNameOfCorruptRecord"] = _MALFORMED
    decoded = rows.withColumn(_DECODED, from_json(col(VALUE).cast("string"), schema, options))
    if malformed is Malformed.DROP:
        decoded = decoded.where(col(f"{_DECODED}.{_MALFORMED}").isNull())
    fields = [name for name in schema.fieldNames() if name != _MALFORMED]
    return decoded.select(*(col(f"{_DECODED}.`{name}`") for name in fields), *map(col, source.include))


def read_schema(source: Topic) -> "StructType":
    """The schema of a source, parsed and compared with the columns it includes."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(source.schema) if isinstance(source.schema, str) else source.schema
    except PySparkException as error:
        raise PipelineError(f"{source}: schema {source.schema!r} is no schema: {shorten(clean(str(error)))}") from None
    if not isinstance(schema, StructType):
        raise PipelineError(f"{source}: a schema has named columns, and {source.schema!r} has none")
    twice = [name for name in schema.fieldNames() if name in source.include]
    if twice:
        raise PipelineError(f"{source}: column {twice[0]} is both in the schema and in include")
    return schema


def encode(rows: "DataFrame", sink: Topic | Parquet) -> "DataFrame":
    """The rows of the function as the writer takes them."""
    if isinstance(sink, Parquet):
        _require_columns(rows, sink.partition_by, sink)
        return rows
    if sink.encoding is Encoding.RAW:
        _require_columns(rows, (VALUE,), sink)
        return rows
    from pyspark.sql.functions import col, struct, to_json

    _refuse_bytes(rows, sink)
    value = to_json(struct(*(col(f"`{name}`") for name in rows.columns))).alias(VALUE)
    if sink.key is None:
        return rows.select(value)
    _require_columns(rows, (sink.key,), sink)
    return rows.select(col(f"`{sink.key}`").cast("string").alias("key"), value)


def _require_columns(rows: "DataFrame", names: tuple[str, ...], sink: Topic | Parquet) -> None:
    for name in names:
        if name not in rows.columns:
            raise PipelineError(f"{sink} needs a column {name!r}, and the result has {', '.join(rows.columns)}")


def _refuse_bytes(rows: "DataFrame", sink: Topic) -> None:
    for name, kind in rows.dtypes:
        if kind == "binary":
            raw = ', or write the record as it is with format="raw"' if name in COLUMN_TYPES else ""
            raise PipelineError(f"{sink}: column {name} is binary, and JSON has no bytes; cast it to string{raw}")
