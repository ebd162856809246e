"""A batch written by JDBC without the rows that the database refuses.

Spark writes each partition in a transaction of its own, and reports only that a partition failed. So the rows of a
batch are one partition here: if one row is refused, none is written. Then the rows are written by halves, and the
halves that fail are divided until the refused rows are found.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tailrace.base.limits import PIPELINE_LEFT_OUT_MAX
from tailrace.spark.connector.jdbc_refusal import Refusal, refusal_of
from tailrace.spark.error import ConnectorError, RowRefused
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.spark.connector.base import FlowPlace

_NUMBER = "__number"

Save = Callable[["DataFrame"], None]


def write_without_refused(batch: "DataFrame", save: Save, sink: str, place: "FlowPlace") -> None:
    """Write a batch, and do what errors= says with the rows that the database refuses."""
    from pyspark.sql.functions import monotonically_increasing_id

    # Kept, because functions of users may do more than compute. The only partition has the numbers 0, 1, 2 and so on.
    numbered = batch.repartition(1).withColumn(_NUMBER, monotonically_increasing_id()).persist()
    try:
        if _try(numbered.drop(_NUMBER, ORIGIN), save) is None:
            return
        counts = Counter[str]()
        for refusal, row in _refused(numbered, range(numbered.count()), save):
            error = RowRefused(f"{sink} refuses a row: {refusal.message}", row)
            counts[f"{sink} refuses a row (SQLSTATE {refusal.state})"] += 1
            if counts.total() > PIPELINE_LEFT_OUT_MAX:
                raise ConnectorError(f"{sink} refuses more than {PIPELINE_LEFT_OUT_MAX} rows of one batch: {error}")
            place.rejects.refuse([error])
        place.refused.add(counts)
    finally:
        numbered.unpersist()


def _refused(numbered: "DataFrame", numbers: range, save: Save) -> Iterator[tuple[Refusal, dict[str, Any]]]:
    """Write the rows with these numbers, of which one at least is refused, and yield those that are."""
    from pyspark.sql.functions import col

    half = len(numbers) // 2
    for part in (numbers[:half], numbers[half:]) if half else (numbers,):
        chosen = numbered.where(col(_NUMBER).between(part.start, part.stop - 1)).drop(_NUMBER)
        refusal = _try(chosen.drop(ORIGIN), save)
        if refusal is None:
            continue
        if len(part) == 1:
            yield refusal, chosen.collect()[0].asDict(recursive=True)
        else:
            yield from _refused(numbered, part, save)


def _try(rows: "DataFrame", save: Save) -> Refusal | None:
    """Write rows in one transaction; returns why the database refuses one of them. Raises other errors."""
    try:
        save(rows)
    except Exception as error:  # of any driver
        refusal = refusal_of(error, rows.sparkSession)
        if refusal is None:
            raise
        return refusal
    return None
