"""The columns that a schema of the registry has in Arrow and in Spark."""

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.records.arrow.avro_plan import UnsupportedAvroType, make_plan
from tailrace.schema.avro.schema import parse
from tailrace.schema.codec.json_column import arrow_fields
from tailrace.schema.language import InvalidSchema, SchemaType
from tailrace.schema.stored import StoredSchema
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def arrow_columns(stored: StoredSchema) -> Any:
    """Return the Arrow schema of decoded values; a schema that is not a record has the column `value`."""
    try:
        if stored.type is SchemaType.JSON:
            fields = arrow_fields(json.loads(stored.text))
            if not fields:
                raise PipelineError(f"the JSON Schema with id {stored.id} has no properties with a type")
            return pa.schema(fields)
        if stored.type is SchemaType.PROTOBUF:
            from tailrace.spark.connector.topic.protobuf_value import first_message, message_fields

            return pa.schema(message_fields(first_message(stored.text, stored.imports)))
        type_ = make_plan(parse(stored.text, stored.imports, is_new=False).root).column.type
    except (InvalidSchema, UnsupportedAvroType) as error:
        raise PipelineError(f"the schema with id {stored.id} cannot be read: {error}") from None
    return pa.schema(list(type_) if pa.types.is_struct(type_) else [pa.field("value", type_)])


def spark_columns(columns: Any) -> "StructType":
    """Return the schema that Spark has for these columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([pa.field(field.name, _known(field.type)) for field in columns]))


def _known(type_: Any) -> Any:
    """Return the nearest type that Spark knows: it has one unit of time, and no bytes of fixed size."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _known(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_known(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _known(type_.item_type))
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_time(type_):
        return pa.time64("ns")
    return pa.binary() if pa.types.is_fixed_size_binary(type_) else type_
