"""The splitting of a stream: rows with a reason against them are counted, and leave it as the flow's errors= says."""

import json
from base64 import b64decode
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.error_policy import OnError
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.dead_letter import Rejected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

METRIC = "tailrace_rejected"
REASON = "__reason"

_numbers = count()


def count_reasons(rows: "DataFrame", reasons: Sequence[str]) -> "DataFrame":
    """Count the rows for each reason in column `REASON`; every source of a flow needs a metric of its own.

    Spark moves no filter below this, so what computes the reason is computed once.
    """
    from pyspark.sql.functions import col, count_if

    counts = (count_if(col(REASON) == reason).alias(reason) for reason in reasons)
    return rows.observe(f"{METRIC}_{next(_numbers)}", *counts)


def leave_out(rows: "DataFrame", reasons: Sequence[str]) -> "DataFrame":
    """Count the rows with a reason against them, and return the others. Python has taken care of their records."""
    from pyspark.sql.functions import col

    return count_reasons(rows, reasons).where(col(REASON).isNull()).drop(REASON)


def split_off(
    rows: "DataFrame",
    reasons: Sequence[str],
    pack: "Callable[[], Column]",
    rejects: Rejects,
    read: Callable[[str], Rejected],
) -> "DataFrame":
    """Do the same where Spark itself has found the reasons.

    `pack` returns a text with what a dead letter needs, and `read` makes it one. Only such texts are sent to Python,
    and a null for every other row: a struct would cost a null for each of its fields.
    """
    from pyspark.sql.functions import col

    if rejects.policy.action is not OnError.SEND:
        return leave_out(rows, reasons)
    counted = count_reasons(rows, reasons)
    return send_rejected(counted, col(REASON).isNotNull(), pack(), rejects, read).drop(REASON)


def send_rejected(
    rows: "DataFrame", is_rejected: "Column", record: "Column", rejects: Rejects, read: Callable[[str], Rejected]
) -> "DataFrame":
    """Write dead letters for some rows, with a text for each, and return the others."""
    import pyarrow as pa
    from pyspark.sql.functions import when
    from pyspark.sql.pandas.functions import arrow_udf

    def send(records: pa.Array) -> pa.Array:
        rejects.take([read(row) for row in records.filter(records.is_valid()).to_pylist()])
        return records.is_null()

    make_function: Any = arrow_udf  # its declared types know only a form that it warns about
    # Spark may leave out, move or repeat a function without side effects.
    is_kept = make_function(send, "boolean").asNondeterministic()
    return rows.where(is_kept(when(is_rejected, record)))


def pack_record() -> "Column":
    """Return a record as a text for `unpack_record`."""
    from pyspark.sql.functions import base64, col, struct, to_json, transform, unix_millis

    headers = transform("headers", lambda each: struct(each["key"].alias("key"), base64(each["value"]).alias("value")))
    whole = [col(name) for name in ("topic", "partition", "offset")]
    encoded = [base64(name).alias(name) for name in ("key", "value")]
    return to_json(struct(*whole, *encoded, headers.alias("headers"), unix_millis("timestamp").alias("timestamp_ms")))


def unpack_record(text: str) -> dict[str, Any]:
    """Return the columns of a record; those that are null are missing."""
    row: dict[str, Any] = json.loads(text)
    row |= {name: b64decode(row[name]) for name in ("key", "value") if name in row}
    for header in row.get("headers", ()):
        header["value"] = b64decode(header["value"]) if "value" in header else None
    return row
