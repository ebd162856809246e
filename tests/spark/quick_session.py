"""Sessions of short tests: as users get them, but cheaper to start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import tailrace.spark
from tailrace.spark.spark_session import defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def quick_session(name: str, config: Mapping[str, str] | None = None) -> SparkSession:
    """A session on two cores whose Java compiles nothing a second time: tests end before that pays."""
    given = defaults(MASTER, "error")[_JAVA_OPTIONS]
    java = {_JAVA_OPTIONS: f"{given} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return tailrace.spark.session(name, master=MASTER, config=java | dict(config or {}))
