"""A driver to be killed: copies one topic to another as a stream, until it is stopped.

python -m tests.spark.driver BOOTSTRAP SOURCE SINK CHECKPOINT OFFSETS_PER_BATCH
"""

import sys
from typing import Any

import runnel.spark


def start(spark: Any, servers: str, source: str, sink: str, checkpoint: str, offsets: str, **trigger: Any) -> Any:
    """The stream, running."""
    frame = (
        spark.readStream.format("runnel")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", offsets)
        .load()
    )
    writer = (
        frame.select("key", "value")
        .writeStream.format("runnel")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("checkpointLocation", checkpoint)
    )
    return (writer.trigger(**trigger) if trigger else writer).start()


if __name__ == "__main__":
    start(runnel.spark.session("driver", master="local[2]"), *sys.argv[1:]).awaitTermination()
