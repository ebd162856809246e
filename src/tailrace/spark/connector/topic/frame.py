"""The conversion between records and rows: values decoded by a schema, and rows encoded."""

from typing import TYPE_CHECKING

from tailrace.spark.column import COLUMN_TYPES
from tailrace.spark.connector.argument import Malformed, parse_schema, refuse_origin, require_columns
from tailrace.spark.connector.base import FlowStart
from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.topic.flow_schema import FlowSchemas
from tailrace.spark.connector.topic.json_value import decode_json
from tailrace.spark.connector.topic.record_size import leave_out_large
from tailrace.spark.connector.topic.tombstone import handle_tombstones
from tailrace.spark.connector.topic.topic import PLACE, VALUE, Encoding, Topic
from tailrace.spark.error import PipelineError
from tailrace.spark.record_place import ORIGIN, split_origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def decode(rows: "DataFrame", source: Topic, start: FlowStart, rejects: Rejects) -> "DataFrame":
    """Decode the rows of a reader for the function. Below the last projection they have the column `ORIGIN`."""
    from pyspark.sql.functions import concat_ws

    chosen = None if source.malformed is Malformed.NULL else rejects
    if start.place.origin is not None:
        rows = rows.withColumn(ORIGIN, concat_ws(" ", *PLACE))
    rows = handle_tombstones(rows, source.tombstones, rejects)
    if source.registered is not None:
        schemas = FlowSchemas(start.place.checkpoint)
        start.before_start(schemas.settle)
        return schemas.decode(rows, source, source.registered, chosen)
    if source.schema is None:
        return rows.select(*source.include) if source.include else rows.drop(ORIGIN)
    return decode_json(rows, read_schema(source), source.include, chosen)


def read_schema(source: Topic) -> "StructType":
    """Return the schema of a source, parsed and compared with the columns it includes."""
    schema = parse_schema(str(source), source.schema)
    refuse_origin(schema.fieldNames(), source)
    twice = [name for name in schema.fieldNames() if name in source.include]
    if twice:
        raise PipelineError(f"{source}: column {twice[0]} is both in the schema and in include")
    return schema


def encode(rows: "DataFrame", sink: Topic, start: FlowStart) -> "DataFrame":
    """Encode the rows of the function for the writer. Where errors do not stop the flow, it gets none too large."""
    encoded = _encode(rows, sink, start)
    if start.place.errors.action is not OnError.STOP:
        encoded = leave_out_large(encoded, sink, start.place)
    return encoded.drop(ORIGIN)


def _encode(rows: "DataFrame", sink: Topic, start: FlowStart) -> "DataFrame":
    if sink.encoding is Encoding.RAW:
        require_columns(rows, (VALUE,) if len(sink.names) == 1 else (VALUE, "topic"), sink)
        return rows
    if sink.registered is not None:
        if sink.key is not None:
            require_columns(rows, (sink.key,), sink)
        schemas = FlowSchemas(start.place.checkpoint)
        start.before_start(schemas.settle)
        return schemas.encode(rows, sink, sink.registered, start.place.rejects)
    from pyspark.sql.functions import col, struct, to_json

    names, origin = split_origin(rows.columns)
    _refuse_bytes(rows, sink)
    value = to_json(struct(*(col(f"`{name}`") for name in names))).alias(VALUE)
    if sink.key is None:
        return rows.select(value, *origin)
    require_columns(rows, (sink.key,), sink)
    return rows.select(col(f"`{sink.key}`").cast("string").alias("key"), value, *origin)


def _refuse_bytes(rows: "DataFrame", sink: Topic) -> None:
    for name, kind in rows.dtypes:
        if kind == "binary":
            raw = ', or write the record as it is with format="raw"' if name in COLUMN_TYPES else ""
            raise PipelineError(f"{sink}: column {name} is binary, and JSON has no bytes; cast it to string{raw}")
