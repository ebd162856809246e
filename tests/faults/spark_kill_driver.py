"""A driver to be killed: counts and sums by key and minute, from one topic into another, exactly once.

python -m tests.faults.spark_kill_driver MASTER BOOTSTRAP SOURCE SINK FOLDER FORMAT
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFFSETS_PER_BATCH = 3_000
LATENESS = "20 minutes"  # of the time in the records, which is far more than partitions are apart
FIRST_SECOND = 1_700_000_040  # a full minute
# It lives for seconds, in which compiling plans and checking classes takes longer than running them.
CONFIG = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.defaultJavaOptions": "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    "spark.executor.defaultJavaOptions": "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
}
ON_A_CLUSTER = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


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
    from tests.faults.spark_kill_desk import DecidedSource, UndecidedSource
    from tests.spark.quick_session import quick_session

    master, *rest = sys.argv[1:]
    config = CONFIG if master.startswith("local") else CONFIG | ON_A_CLUSTER
    spark = quick_session("exactly-once", {"spark.master": master, **config})
    for source in (DecidedSource, UndecidedSource):
        spark.dataSource.register(source)
    while not spark.sparkContext._jsc.sc().isStopped():
        try:
            start(spark, *rest).awaitTermination()
        except Exception as error:
            print(f"the query failed: {str(error)[:2000]}", file=sys.stderr, flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
