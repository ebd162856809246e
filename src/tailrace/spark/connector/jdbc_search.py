"""The search for the row that made a database refuse a batch written by JDBC.

Spark reports which task failed, but not for which row, and other tasks may have committed their rows. So the rows of
the failed task are written again, in parts, until the first row is found that the database refuses after the rows
before it. Each part is one transaction, which is always rolled back: the last row of a part is followed by one that
raises an error. The size of JDBC batches divides that of the part, because Spark sends an incomplete JDBC batch only at
the end of the task.
"""

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tailrace.base.invariant import InvariantError
from tailrace.spark.connector.jdbc_refusal import Refusal, refusal_of
from tailrace.spark.error import RowRefused
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("tailrace.spark.jdbc")

_STEPS = (1_000, 100, 10, 1)
_ROWS_BEFORE_MAX = 9_000
"""The rows that are written before the row in question with the last steps, which send them almost one by one."""

_NUMBER = "__number"
_FAILED_TASK = re.compile(r"Task (\d+) in stage")
_END = "tailrace: the end of the part"

Save = Callable[..., None]
"""Writes rows by JDBC; takes options of Spark's format jdbc by name."""
Try = Callable[[int, int, int], Refusal | None]
"""Writes the rows from the first number to before the second, in JDBC batches of the third, and rolls back."""


class Target(Protocol):
    """The table of the batch."""

    @property
    def task_count_max(self) -> int | None: ...
    def has_transactions(self, spark: "SparkSession") -> bool: ...


class Found(NamedTuple):
    """The number of a row, and why it is refused."""

    number: int
    refusal: Refusal


def find_refused(error: Exception, batch: "DataFrame", target: Target, save: Save) -> RowRefused | None:
    """Return the row for which the write of a batch has failed.

    Returns None if the error is not about a row, if the database has no transactions, and if no row is found.
    """
    spark, task = batch.sparkSession, _FAILED_TASK.search(str(error))
    if refusal_of(error, spark) is None or task is None:
        return None
    try:
        if not target.has_transactions(spark):
            return None
        return _search(_as_written(batch, target.task_count_max), int(task[1]), str(target), save)
    except Exception as failure:  # the flow stops with the error of the database
        log.warning("the search for the row that %s refuses has failed: %s", target, failure)
        return None


def _as_written(batch: "DataFrame", task_count_max: int | None) -> "DataFrame":
    """Return a batch with the partitions with which Spark writes it."""
    if task_count_max is None or task_count_max >= batch.rdd.getNumPartitions():
        return batch
    return batch.coalesce(task_count_max)


def first_refused(row_count: int, attempt: Try) -> Found | None:
    """Return the first row that is refused after the rows before it."""
    start, low, high = 0, 0, row_count
    for step in _STEPS:
        low, high = _narrow(start, low, high, step, attempt)
        start = max(start, low - _ROWS_BEFORE_MAX)
    refusal = attempt(start, high, 1) if high else None
    return None if refusal is None else Found(high - 1, refusal)


def _narrow(start: int, low: int, high: int, step: int, attempt: Try) -> tuple[int, int]:
    """Return bounds at most `step` apart: the rows before the first one are taken, with those up to the second not."""
    taken, refused = 0, (high - low + step - 1) // step
    while refused - taken > 1:
        middle = (taken + refused) // 2
        if attempt(start, low + middle * step, step) is None:
            taken = middle
        else:
            refused = middle
    return low + taken * step, min(high, low + refused * step)


def _search(batch: "DataFrame", task: int, target: str, save: Save) -> RowRefused | None:
    from pyspark.sql.functions import col, lit, monotonically_increasing_id, raise_error, spark_partition_id, when

    spark = batch.sparkSession
    chosen = batch.where(spark_partition_id() == task).repartition(1)
    chosen = chosen.withColumn(_NUMBER, monotonically_increasing_id()).persist()  # the numbers 0, 1, 2 and so on

    def attempt(start: int, end: int, size: int) -> Refusal | None:
        is_end = raise_error(lit(_END)).cast("boolean")
        part = rows.where(when(col(_NUMBER) == end, is_end).otherwise(col(_NUMBER).between(start, end - 1)))
        try:
            save(part.drop(_NUMBER, ORIGIN), batchsize=str(size))
        except Exception as error:  # of any driver
            refusal = refusal_of(error, spark)
            if refusal is None and _END not in str(error):
                raise
            return refusal
        raise InvariantError(f"{target}: a part of a search was written")

    try:
        row_count = chosen.count()
        last = spark.createDataFrame([(row_count,)], f"{_NUMBER} bigint")
        rows = chosen.unionByName(last, allowMissingColumns=True).coalesce(1)  # in this order
        found = first_refused(row_count, attempt)
        if found is None:
            return None
        (row,) = chosen.where(col(_NUMBER) == found.number).drop(_NUMBER).collect()
        return RowRefused(f"{target} refuses a row: {found.refusal.message}", row.asDict(recursive=True))
    finally:
        chosen.unpersist()
