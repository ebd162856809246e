"""Records without a value, which a source leaves out or rejects before it decodes values."""

from typing import TYPE_CHECKING

from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.record_row import read_record
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON, pack_record, split_off, unpack_record
from tailrace.spark.connector.topic.topic import VALUE, Tombstones
from tailrace.spark.dead_letter import Fault, Rejected
from tailrace.spark.error import MalformedValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_VALUE = "record has no value"


def handle_tombstones(rows: "DataFrame", tombstones: Tombstones | None, rejects: Rejects) -> "DataFrame":
    """Return the records without those that are to be left out or rejected."""
    from pyspark.sql.functions import col, concat, lit, raise_error, when

    if tombstones in (None, Tombstones.NULL):
        return rows
    has_value = col(VALUE).isNotNull()
    if tombstones is Tombstones.DROP:
        return rows.where(has_value)
    if rejects.policy.action is OnError.STOP:
        place = concat(col("topic"), lit("-"), col("partition"), lit(" offset "), col("offset"))
        error = raise_error(concat(place, lit(f": {NO_VALUE}"))).cast("boolean")
        return rows.where(when(has_value, lit(True)).otherwise(error))
    marked = rows.withColumn(REASON, when(col(VALUE).isNull(), lit(NO_VALUE)))
    return split_off(marked, [NO_VALUE], pack_record, rejects, TombstoneReject())


class TombstoneReject:
    """Makes a rejected record of one without a value."""

    def __call__(self, text: str) -> Rejected:
        return read_record(unpack_record(text), Fault.of(MalformedValue(NO_VALUE), type(self)))
