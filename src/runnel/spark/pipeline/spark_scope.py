"""The Spark session of a pipeline, for as long as it runs."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import runnel
from runnel.spark import client_log, session
from runnel.spark.pipeline.run import SESSION_CONFIG
from runnel.spark.spark_session import defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_scope(file: Path, *, master: str, log_level: str = "off", java_options: str = "") -> Iterator["SparkSession"]:
    """A session whose workers can import what the pipeline file can; it ends with the block."""
    folders = [os.path.abspath(file.parent), str(Path(runnel.__file__).parents[1])]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([before] if before else [])])
    try:
        config = SESSION_CONFIG | {f"spark.executorEnv.{client_log.ENVIRONMENT}": log_level}
        config |= _with_java_options(java_options, master, log_level)
        spark = session(f"runnel {file.stem}", master=master, config=config, log_level=log_level)
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


def _with_java_options(java_options: str, master: str, log_level: str) -> dict[str, str]:
    """The setting with these options beside those that a session has by itself."""
    name = "spark.driver.extraJavaOptions"
    if not java_options:
        return {}
    return {name: f"{defaults(master, log_level).get(name, '')} {java_options}".strip()}


def _silence_analysis() -> None:
    """Mistakes in queries are told in one line here, and not also logged with their Java traces."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True
