"""The rows of a store's objects as DataFrames, and rows as the tasks of a sink take them."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.argument import Malformed, parse_schema
from tailrace.spark.connector.base import FlowStart
from tailrace.spark.connector.kept_schema import keep_schema
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.s3.object_format import TEXT, ObjectFormat
from tailrace.spark.connector.topic.json_value import NOT_JSON
from tailrace.spark.connector.wrong_row import reject_wrong
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tailrace.spark.connector.s3.s3 import S3

_DECODED = "__decoded"
_MALFORMED = "__malformed"
_numbers = count()  # each source of a session has a name of its own


def read_frame(start: FlowStart, source: "S3", rejects: Rejects, load: "Callable[[str], DataFrame]") -> "DataFrame":
    """Register the data source of a flow, and decode what `load` reads of it."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    from tailrace.spark.connector.s3.object_read import LINES
    from tailrace.spark.connector.s3.source import ReadSettings, data_source

    settings = source.settings.with_environment()
    if source.schema is None:
        schema = keep_schema(start, source.settings.url, lambda: _infer(source))
    else:
        schema = parse_schema(str(source), source.schema)
    read = from_arrow_schema(LINES) if source.format is ObjectFormat.JSON else schema
    name = f"tailrace_s3_{next(_numbers)}"
    chosen = ReadSettings(
        settings,
        source.format,
        to_arrow_schema(read, timezone="UTC"),
        source.order,
        int(source.look_back_s * 1000),
        source.max_objects,
    )
    start.spark.dataSource.register(data_source(name, chosen, read))
    rows = load(name)
    if source.format is not ObjectFormat.JSON:
        return rows
    return _decode(rows, schema, None if source.malformed is Malformed.NULL else rejects)


def _infer(source: "S3") -> "StructType":
    """Return the schema of the newest object."""
    from tailrace.spark.connector.s3.listing import list_committed
    from tailrace.spark.connector.s3.object_read import object_schema
    from tailrace.spark.connector.s3.store import open_store
    from tailrace.spark.connector.topic.value_type import spark_columns

    settings = source.settings.with_environment()
    store = open_store(settings)
    found = list_committed(settings, store)
    if not found:
        raise PipelineError(f"{source}: there are no objects to take the schema from; give schema=")
    return spark_columns(object_schema(settings, store, found[-1], source.format))


def _decode(rows: "DataFrame", schema: "StructType", rejects: Rejects | None) -> "DataFrame":
    """Decode lines of JSON. Without `rejects`, the columns of a line that does not fit are null."""
    from pyspark.sql.functions import coalesce, col, concat, from_json, lit
    from pyspark.sql.types import StringType, StructField, StructType

    wide = StructType([*schema.fields, StructField(_MALFORMED, StringType())])
    options = {"columnNameOfCorruptRecord": _MALFORMED}
    decoded = rows.withColumn(_DECODED, from_json(col("value"), wide, options))
    if rejects is not None:
        is_wrong = ~coalesce(col(f"{_DECODED}.{_MALFORMED}").isNull(), lit(False))
        place = concat(lit("object "), col("object"), lit(" line "), col("line"))
        decoded = reject_wrong(decoded, is_wrong, place, col("value"), NOT_JSON, rejects)
    return decoded.select(*(col(f"{_DECODED}.`{name}`") for name in schema.fieldNames()))


def encode_rows(rows: "DataFrame", sink: "S3") -> tuple["DataFrame", str | None]:
    """Return rows as tasks take them, and the schema for Avro; raises `PipelineError` if the format lacks a type."""
    from tailrace.spark.connector.topic.avro_schema import avro_schema

    if sink.format is ObjectFormat.AVRO:
        return rows, avro_schema(rows.schema, "row")
    if sink.format is ObjectFormat.PARQUET:
        return rows, None
    from pyspark.sql.functions import col, struct, to_json

    for name, kind in rows.dtypes:
        if kind == "binary":
            raise PipelineError(f"{sink}: column {name} is binary, and JSON has no bytes; cast it to string")
    quoted: list[Any] = [col(f"`{name.replace('`', '``')}`") for name in rows.columns]
    return rows.select(to_json(struct(*quoted)).alias(TEXT)), None
