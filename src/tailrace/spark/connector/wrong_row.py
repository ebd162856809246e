"""Rows of files and objects that Spark could not decode: they stop the flow, or leave it as its errors= says.

They have no topic and no offset. Errors and dead letters name the file instead.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.split import REASON, count_reasons, leave_out, send_rejected
from tailrace.spark.dead_letter import Fault, Rejected, Stage
from tailrace.spark.error import MalformedValue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PIECE_LENGTH = 60
_PLACE = "place"
_VALUE = "value"


def reject_wrong(
    rows: "DataFrame", is_wrong: "Column", place: "Column", value: "Column", reason: str, rejects: Rejects
) -> "DataFrame":
    """Return the rows that are right. `place` and `value` are texts: where a row is, and what it is."""
    from pyspark.sql.functions import col, lit, raise_error, struct, to_json, when

    marked = rows.withColumn(REASON, when(is_wrong, lit(reason)))
    if rejects.policy.action is OnError.SKIP:
        return leave_out(marked, [reason])
    counted = count_reasons(marked, [reason])
    if rejects.policy.action is OnError.SEND:
        packed = to_json(struct(place.alias(_PLACE), value.alias(_VALUE)))
        return send_rejected(counted, col(REASON).isNotNull(), packed, rejects, WrongRow(reason)).drop(REASON)
    error = raise_error(error_text(place, value, reason)).cast("boolean")
    return counted.where(when(col(REASON).isNull(), lit(True)).otherwise(error)).drop(REASON)


def error_text(place: "Column", value: "Column", reason: str) -> "Column":
    """Return an error that names the row, with the beginning of its text on one line."""
    from pyspark.sql.functions import concat, length, lit, regexp_replace, substring, when

    piece = regexp_replace(substring(value, 1, _PIECE_LENGTH), r"\s+", " ")
    more = when(length(value) > _PIECE_LENGTH, lit("…")).otherwise(lit(""))
    return concat(place, lit(f": {reason} ("), piece, more, lit(")"))


@dataclass(frozen=True, slots=True)
class WrongRow:
    """Makes a rejected row of what Spark could not decode."""

    reason: str

    def __call__(self, text: str) -> Rejected:
        row = json.loads(text)
        fault = Fault.of(MalformedValue(f"{row[_PLACE]}: {self.reason}"), type(self))
        return Rejected(Stage.DECODE, fault, str(row[_VALUE]).encode())
