"""A driver to be killed: several flows from one topic, each into a topic of its own, exactly once.

python -m tests.faults.spark_kill_driver MASTER BOOTSTRAP SOURCE FOLDER FORMAT FLOW_COUNT
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.faults.spark_kill_evidence import Evidence
from tests.faults.spark_kill_feed import PARTITION_COUNT
from tests.faults.spark_kill_flow import Flow, Squares, make_flows
from tests.faults.spark_kill_process import config_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OFFSETS_PER_BATCH = 3_000
RESTART_PAUSE_S = 0.2
FIRST_BATCH_TIMEOUT_S = 20.0


class Place(NamedTuple):
    """Where flows read and write."""

    servers: str
    source: str
    folder: str
    format_name: str

    def start(self, spark: SparkSession, flow: Flow) -> Any:
        """The query of a flow, running."""
        stream = flow.rows(self._records(spark, flow)).writeStream.queryName(flow.name)
        stream = stream.option("checkpointLocation", f"{self.folder}/checkpoint-{flow.name}")
        options = {"kafka.bootstrap.servers": self.servers, "topic": flow.name, "delivery": "exactly-once"}
        if not flow.is_in_foreach_batch:
            return stream.format(self.format_name).options(**options).start()

        def write(frame: DataFrame, _batch_id: int) -> None:
            frame.write.format(self.format_name).options(**options).mode("append").save()

        return stream.foreachBatch(write).start()

    def _records(self, spark: SparkSession, flow: Flow) -> DataFrame:
        reader = (
            spark.readStream.format("tailrace")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", OFFSETS_PER_BATCH)
        )
        if isinstance(flow, Squares):
            # Behind a shuffle there are two tasks. Here a small batch would be one, and there would be no BETWEEN.
            reader = reader.option("minPartitions", PARTITION_COUNT)
        frame = reader.load()
        return frame.select("key", f.col("value").cast("string").cast("long").alias("number"))


_starting = threading.Lock()


def start_alone(spark: SparkSession, place: Place, flow: Flow) -> Any:
    """Start a query, and the next one when this one has run a batch.

    Spark gives each new Python process ten seconds to connect. On a busy machine four of them at once take longer.
    """
    with _starting:
        query = place.start(spark, flow)
        deadline_s = time.monotonic() + FIRST_BATCH_TIMEOUT_S
        while query.isActive and query.lastProgress is None and time.monotonic() < deadline_s:
            time.sleep(RESTART_PAUSE_S)
        return query


def keep_running(spark: SparkSession, place: Place, flow: Flow) -> None:
    """Run the query of a flow, again and again when it fails, while the other flows go on."""
    evidence = Evidence(Path(place.folder))
    # A stream looks its sink's format up in the active session, and a thread of its own has none.
    SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    while not spark.sparkContext._jsc.sc().isStopped():
        try:
            start_alone(spark, place, flow).awaitTermination()
            problem = "ended by itself"
        except Exception as error:
            problem = str(error)
        evidence.note_failure(flow.name, problem)
        print(f"flow {flow.name} failed: {problem[:4000]}", file=sys.stderr, flush=True)
        time.sleep(RESTART_PAUSE_S)


def main() -> None:
    """Run the flows until somebody kills this."""
    from tests.faults.spark_kill_desk import DecidedSource, UndecidedSource
    from tests.spark.quick_session import quick_session

    master, *where, flow_count = sys.argv[1:]
    spark = quick_session("exactly-once", {"spark.master": master, **config_for(master)})
    for source in (DecidedSource, UndecidedSource):
        spark.dataSource.register(source)
    flows = make_flows(int(flow_count))
    threads = [threading.Thread(target=keep_running, args=(spark, Place(*where), flow)) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
