"""The same topics through `format("kafka")` and `format("tailrace")`, in a session that has both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.spark.waiting import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("kafka", "tailrace")
COLUMNS = ["key", "value", "headers", "partition"]
TOPICS = ("from_kafka", "from_tailrace", "stream_from_kafka", "stream_from_tailrace")


class Comparison:
    """Reads and writes with either format."""

    def __init__(self, spark: SparkSession, servers: str, checkpoints: str) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": servers}
        self._checkpoints = checkpoints

    def write(self) -> None:
        """Rows of all kinds, the same with both formats."""
        headers = "CASE WHEN id % 3 = 0 THEN array(struct('h' AS key, cast('x' AS BINARY) AS value)) END AS headers"
        rows = self._spark.range(500).selectExpr(
            "CASE WHEN id % 7 > 0 THEN cast(cast(id AS STRING) AS BINARY) END AS key",
            "CASE WHEN id % 5 > 0 THEN cast(repeat('v', cast(id AS INT)) AS BINARY) END AS value",
            headers,
            "CASE WHEN id % 2 = 0 THEN cast(id % 3 AS INT) END AS partition",
        )
        for name in FORMATS:
            writer = rows.write.format(name).options(**self._options, topic=f"from_{name}", includeHeaders="true")
            writer.mode("append").save()

    def copy(self) -> None:
        """Streams from one topic to another, each with one format on both sides."""
        for name in FORMATS:
            reader = self._spark.readStream.format(name).options(**self._options, subscribe="from_kafka")
            frame = reader.options(startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger="200").load()
            writer = frame.select(*COLUMNS).writeStream.format(name)
            writer = writer.options(**self._options, topic=f"stream_from_{name}", includeHeaders="true")
            writer = writer.option("checkpointLocation", f"{self._checkpoints}/{name}")
            run_to_end(writer.trigger(availableNow=True).start)

    def compare(self, *columns: str, **options: Any) -> dict[str, Any]:
        """Whether both formats give the same rows."""
        found = [self._read(name, columns, options) for name in FORMATS]
        return {"rows": len(found[1]), "equal": found[0] == found[1]}

    def _read(self, name: str, columns: tuple[str, ...], options: dict[str, Any]) -> list[str]:
        reader = self._spark.read.format(name).options(**self._options, includeHeaders="true", **options)
        return sorted(map(str, reader.load().select(*(columns or ["*"])).collect()))

    def same_content(self, one: str, other: str, *columns: str) -> bool:
        """Whether two topics hold the same, whatever the offsets."""
        left, right = (self._read("tailrace", columns, {"subscribe": topic}) for topic in (one, other))
        return left == right


def compare_formats(spark: SparkSession, servers: str, checkpoints: str) -> dict[str, Any]:
    """What was found: for each comparison, how many rows there were and whether both formats gave the same.

    The topics must be there, with three partitions each.
    """
    both = Comparison(spark, servers, checkpoints)
    both.write()
    both.copy()
    offsets = json.dumps({"from_kafka": {"0": 10, "1": -2, "2": 5}})
    ends = json.dumps({"from_kafka": {"0": 60, "1": -1, "2": 6}})
    placed = ("key", "value", "headers")
    return {
        "written by kafka": both.compare(subscribe="from_kafka"),
        "written by tailrace": both.compare(subscribe="from_tailrace"),
        "streamed by kafka": both.compare(subscribe="stream_from_kafka"),
        "streamed by tailrace": both.compare(subscribe="stream_from_tailrace"),
        "a pattern": both.compare(subscribePattern="stream_from_.*"),
        "offsets": both.compare(subscribe="from_kafka", startingOffsets=offsets, endingOffsets=ends),
        "from a time on": both.compare(subscribe="from_tailrace", startingTimestamp="1"),
        "one partition": both.compare(assign='{"from_tailrace":[1]}', minPartitions="3"),
        "both sinks wrote the same": both.same_content("from_kafka", "from_tailrace", *placed),
        "both streams wrote the same": both.same_content("stream_from_kafka", "stream_from_tailrace", *COLUMNS),
    }
