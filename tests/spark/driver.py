"""A driver to be killed: copies a topic to two others, as a stream and as one batch after the other.

python -m tests.spark.driver BOOTSTRAP SOURCE STREAM_SINK BATCH_SINK FOLDER OFFSETS_PER_BATCH
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.spark.quick_session import quick_session
from tests.spark.waiting import worker_was_late


class Copier(NamedTuple):
    """What is copied, and where to."""

    servers: str
    source: str
    stream_sink: str
    batch_sink: str
    folder: str
    offsets_per_batch: str

    @property
    def log(self) -> Path:
        """A letter for each batch copy that was begun (b) and each that was finished (f)."""
        return Path(self.folder) / "copies"

    def start_stream(self, spark: Any, **trigger: Any) -> Any:
        """The stream, running; its checkpoint says where it goes on."""
        frame = (
            spark.readStream.format("tailrace")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self.offsets_per_batch)
            .load()
        )
        writer = (
            frame.select("key", "value")
            .writeStream.format("tailrace")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", self.stream_sink)
            .option("checkpointLocation", f"{self.folder}/checkpoint")
        )
        return (writer.trigger(**trigger) if trigger else writer).start()

    def copy_batch(self, spark: Any) -> None:
        """Copy everything once."""
        servers = {"kafka.bootstrap.servers": self.servers}
        self._note("b")
        rows = spark.read.format("tailrace").options(**servers, subscribe=self.source, columns="key,value").load()
        rows.write.format("tailrace").options(**servers, topic=self.batch_sink).mode("append").save()
        self._note("f")

    def _note(self, letter: str) -> None:
        with self.log.open("a") as log:
            log.write(letter)


def main() -> None:
    """Copy until somebody kills it."""
    copier = Copier(*sys.argv[1:])
    spark = quick_session("driver")
    query = copier.start_stream(spark)
    while True:
        failure = query.exception()
        if failure is not None and not worker_was_late(failure):
            raise failure
        if failure is not None:
            query = copier.start_stream(spark)
        copier.copy_batch(spark)


if __name__ == "__main__":
    main()
