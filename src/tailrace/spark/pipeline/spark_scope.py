"""The Spark session of a running pipeline."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import tailrace
from tailrace.spark import client_log, session
from tailrace.spark.java import find_quiet_java_home
from tailrace.spark.pipeline.run import SESSION_CONFIG
from tailrace.spark.spark_session import defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_scope(
    file: Path,
    *,
    master: str,
    log_level: str = "off",
    java_options: str = "",
    config: Mapping[str, str] | None = None,
    beside: Sequence[Path] = (),
) -> Iterator["SparkSession"]:
    """Provide a session during the block, whose workers can import the same modules as the pipeline files.

    `beside` has the other files that run in the session.
    """
    os.environ["JAVA_HOME"] = str(find_quiet_java_home())  # each run would begin with a warning of Java
    folders = list(dict.fromkeys(os.path.abspath(one.parent) for one in (file, *beside)))
    folders.append(str(Path(tailrace.__file__).parents[1]))
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([before] if before else [])])
    try:
        settings = SESSION_CONFIG | {f"spark.executorEnv.{client_log.ENVIRONMENT}": log_level}
        settings |= _with_java_options(java_options, master, log_level) | dict(config or {})
        spark = session(f"tailrace {file.stem}", master=master, config=settings, log_level=log_level)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    _silence_analysis()
    try:
        yield spark
    finally:
        with contextlib.suppress(Exception):  # the JVM may have ended already
            spark.stop()


def _with_java_options(java_options: str, master: str, log_level: str) -> dict[str, str]:
    """Return the config with these Java options in addition to the default ones."""
    name = "spark.driver.extraJavaOptions"
    if not java_options:
        return {}
    return {name: f"{defaults(master, log_level).get(name, '')} {java_options}".strip()}


def _silence_analysis() -> None:
    """Disable the loggers of query errors, which the pipeline reports in one line."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
