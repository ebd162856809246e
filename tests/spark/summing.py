"""A driver to be killed: sums and counts by key, written exactly once, as a table of changes.

python -m tests.spark.summing BOOTSTRAP SOURCE SINK FOLDER OFFSETS_PER_BATCH
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tailrace

KEY_COUNT = 10


class Summing(NamedTuple):
    """What is summed, and where to. The source's record number n has key n % 10 and value n."""

    servers: str
    source: str
    sink: str
    folder: str
    offsets_per_batch: str

    def start(self, spark: Any, format_name: str = "tailrace", delivery: str = "exactly-once", **trigger: Any) -> Any:
        """The stream, running; its checkpoint says where it goes on."""
        from pyspark.sql import functions as f

        frame = (
            spark.readStream.format("tailrace")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.offsets_per_batch)
            .load()
        )
        number = f.col("value").cast("string").cast("long")
        sums = frame.groupBy("key").agg(f.sum(number).alias("sum"), f.count("*").alias("count"))
        rows = sums.select("key", f.to_json(f.struct("sum", "count")).alias("value"))
        writer = (
            rows.writeStream.format(format_name)
            .outputMode("complete")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", self.sink)
            .option("delivery", delivery)
            .option("checkpointLocation", f"{self.folder}/checkpoint")
        )
        return (writer.trigger(**trigger) if trigger else writer).start()

    def check(self, servers: str, record_count: int) -> None:
        """Raise `AssertionError` unless the sink holds what batches that each count once leave.

        A batch writes a row for each key, and the checkpoint says how many batches there were.
        """
        names = os.listdir(Path(self.folder) / "checkpoint" / "commits")
        batch_count = sum(name.isdigit() for name in names)
        table = tailrace.read_table(servers, self.sink, columns=["key", "value"], isolation_level="read_committed")
        found: dict[bytes, list[dict[str, int]]] = {}
        for key, value in zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True):
            found.setdefault(key, []).append(json.loads(value))
        for key in range(KEY_COUNT):
            rows = found.get(b"%d" % key, [])
            counts = [row["count"] for row in rows]
            numbers = range(key, record_count, KEY_COUNT)
            assert rows[-1:] == [{"sum": sum(numbers), "count": len(numbers)}], f"key {key} ends with {rows[-1:]}"
            assert counts == sorted(counts), f"the counts of key {key} go back: {counts}"
            assert len(counts) == batch_count, f"{len(counts)} rows of key {key} from {batch_count} batches"


def main() -> None:
    """Sum until somebody kills it."""
    from tests.spark.quick_session import quick_session
    from tests.spark.waiting import run_to_end

    summing, spark = Summing(*sys.argv[1:]), quick_session("summing")
    run_to_end(lambda: summing.start(spark), attempt_count=100)


if __name__ == "__main__":
    main()
