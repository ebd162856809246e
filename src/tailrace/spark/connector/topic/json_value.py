"""JSON values that do not fit the schema of a source: how Spark finds them, and what is wrong with them."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.record_row import read_record
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON, pack_record, split_off, unpack_record
from tailrace.spark.connector.wrong_row import error_text
from tailrace.spark.dead_letter import Fault, Rejected
from tailrace.spark.error import MalformedValue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

NOT_JSON = "value is not valid JSON for the schema"
_DECODED = "__decoded"
_MALFORMED = "__malformed"


def decode_json(
    rows: "DataFrame", schema: "StructType", include: tuple[str, ...], rejects: Rejects | None
) -> "DataFrame":
    """Decode the column `value`. Without `rejects`, the columns of a value that does not fit are null."""
    from pyspark.sql.functions import col, from_json
    from pyspark.sql.types import StringType, StructField, StructType

    value = col("value").cast("string")
    names = schema.fieldNames()
    if rejects is None:
        decoded = rows.withColumn(_DECODED, from_json(value, schema))
    else:
        wide = StructType([*schema.fields, StructField(_MALFORMED, StringType())])
        options = {"columnNameOfCorruptRecord": _MALFORMED}
        decoded = rows.withColumn(_DECODED, from_json(value, wide, options)).withColumn(REASON, _reason())
        decoded = _handle(decoded, schema, rejects)
    return decoded.select(*(col(f"{_DECODED}.`{name}`") for name in names), *map(col, include))


def _reason() -> "Column":
    """Return why a value cannot be decoded; null if it can. Spark takes a blank text for null."""
    from pyspark.sql.functions import col, lit, trim, when

    is_blank = col(_DECODED).isNull() & (trim(col("value").cast("string")) == "")
    return when(col(f"{_DECODED}.{_MALFORMED}").isNotNull() | is_blank, lit(NOT_JSON))


def _handle(decoded: "DataFrame", schema: "StructType", rejects: Rejects) -> "DataFrame":
    from pyspark.sql.functions import col, concat, lit, raise_error, spark_partition_id, when

    if rejects.policy.action is not OnError.STOP:
        return split_off(decoded, [NOT_JSON], pack_record, rejects, JsonReject(schema.simpleString()))
    place = concat(col("topic"), lit("-"), col("partition"), lit(" offset "), col("offset"))
    error = raise_error(error_text(place, col("value").cast("string"), NOT_JSON)).cast("boolean")
    # Spark does not move a condition on the partition below the decoding, which would then be done twice.
    return decoded.where(when(col(REASON).isNull(), spark_partition_id() >= 0).otherwise(error))


@dataclass(frozen=True, slots=True)
class JsonReject:
    """Makes a rejected record of a row whose value Spark could not decode."""

    schema: str

    def __call__(self, text: str) -> Rejected:
        row = unpack_record(text)
        return read_record(row, Fault.of(self._error(row["value"]), type(self)))

    def _error(self, value: bytes) -> MalformedValue:
        """Return an error that says more than Spark does."""
        try:
            found = json.loads(value)
        except (ValueError, RecursionError) as cause:
            error = MalformedValue(f"{NOT_JSON}: {cause}")
            error.__cause__ = cause
            return error
        kind = "a field does not have its type" if isinstance(found, dict) else "it is not an object"
        return MalformedValue(f"{NOT_JSON} {self.schema}: {kind}")
