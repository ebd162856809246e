"""The way in which Spark writes the files of checkpoints: one that starts no programs.

Spark writes two small files for each micro-batch through Hadoop's `FileContext`. Where Hadoop's native library is
missing, as in pyspark, that runs `chmod` and `readlink` as programs, about ten for each batch. The way through Hadoop's
`FileSystem` writes a temporary file and renames it, too, and runs none. It does not replace existing files everywhere,
but it does on local file systems, where the checkpoints of pipelines are.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_CLASSES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",  # before Spark 4.1
)


def write_checkpoints_quickly(spark: "SparkSession") -> None:
    """Have the queries that this session starts write checkpoints without running programs."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    if spark.conf.get(_SETTING, "") or (jvm := _jvm(spark)) is None:
        return
    for name in _CLASSES:
        try:
            jvm.org.apache.spark.util.Utils.classForName(name, True, False)
        except Py4JError:
            continue
        spark.conf.set(_SETTING, name)
        return


def _jvm(spark: "SparkSession") -> Any:
    """Return the JVM of the session; None if it is elsewhere, as with Spark Connect."""
    return getattr(spark, "_jvm", None)
