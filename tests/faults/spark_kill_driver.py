"""A driver to be killed: counts and sums by key and minute, from one topic into another, exactly once.

python -m tests.faults.spark_kill_driver BOOTSTRAP SOURCE SINK FOLDER FORMAT
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from runnel.spark.batch_end import Desk
from runnel.spark.decision import Decision
from runnel.spark.source import RunnelDataSource
from runnel.spark.transaction_desk import TransactionDesk
from runnel.spark.writer import ExactlyOnceStreamWriter, MicroBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

OFFSETS_PER_BATCH = 3_000
LATENESS = "20 minutes"  # of the time in the records, which is far more than partitions are apart
FIRST_SECOND = 1_700_000_040  # a full minute


class UndecidedDesk(TransactionDesk):
    """A desk whose decisions nobody finds again."""

    def take(self) -> Decision | None:
        super().take()
        return None

    def decide(self, decision: Decision) -> None:
        """Nothing is written down."""


class UndecidedBatch(MicroBatch):
    """A micro-batch that is committed without a decision."""

    def open_desk(self, sink: str) -> AbstractContextManager[Desk]:
        return self._desk(sink)

    @contextmanager
    def _desk(self, sink: str) -> Iterator[Desk]:
        desk = UndecidedDesk(self._options.client, sink)
        try:
            yield desk
        finally:
            desk.close()


class UndecidedSource(RunnelDataSource):
    """The data source with the decision record switched off."""

    @classmethod
    def name(cls) -> str:
        return "undecided"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return ExactlyOnceStreamWriter(UndecidedBatch(self._sink_options(schema)))


def start(spark: SparkSession, servers: str, source: str, sink: str, folder: str, format_name: str) -> Any:
    """The query, running. Record number n is from second n, has the key n % 5 and the value n."""
    from pyspark.sql import functions as f

    frame = (
        spark.readStream.format("runnel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", OFFSETS_PER_BATCH)
        .load()
    )
    number = f.col("value").cast("string").cast("long")
    rows = frame.select("key", number.alias("number"), f.timestamp_seconds(number + FIRST_SECOND).alias("at"))
    minutes = rows.withWatermark("at", LATENESS).groupBy(f.window("at", "1 minute"), "key")
    sums = minutes.agg(f.count("*").alias("count"), f.sum("number").alias("sum"))
    first = f.unix_timestamp("window.start") - FIRST_SECOND
    value = f.concat_ws(" ", first.cast("string"), f.col("key").cast("string"), "count", "sum")
    return (
        sums.select("key", value.alias("value"))
        .writeStream.format(format_name)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("delivery", "exactly-once")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .start()
    )


def main() -> None:
    """Run the query, again and again when it fails, until somebody kills this."""
    from tests.spark.quick_session import quick_session

    spark = quick_session("exactly-once", {"spark.master": "local[2,4]"})  # tasks are tried four times
    spark.dataSource.register(UndecidedSource)
    while True:
        query = start(spark, *sys.argv[1:])
        try:
            query.awaitTermination()
        except Exception as error:
            print(f"the query failed: {str(error)[:2000]}", file=sys.stderr, flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
