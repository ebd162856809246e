"""The Spark session of a pipeline, for as long as it runs."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import runnel
from runnel.spark import session
from runnel.spark.pipeline.run import SESSION_CONFIG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_scope(file: Path, *, master: str, log_level: str = "off") -> Iterator["SparkSession"]:
    """A session whose workers can import what the pipeline file can; it ends with the block."""
    folders = [os.path.abspath(file.parent), str(Path(runnel.__file__).parents[1])]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([before] if before else [])])
    try:
        spark = session(f"runnel {file.stem}", master=master, config=SESSION_CONFIG, log_level=log_level)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    _silence_analysis()
    try:
        yield spark
    finally:
        with contextlib.suppress(Exception):  # a JVM that is gone has stopped, too
            spark.stop()


def _silence_analysis() -> None:
    """Mistakes in queries are told in one line here, and not also logged with their Java traces."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True
