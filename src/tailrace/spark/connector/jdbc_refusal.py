"""The errors with which databases refuse rows that are written by JDBC."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.base.limits import PIPELINE_LEFT_OUT_MAX
from tailrace.spark.message import clean, shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL_ERROR = "java.sql.SQLException"
_OF_A_ROW = ("22", "23")
"""The classes of SQLSTATE for a value that does not fit, and for a constraint."""


class Refusal(NamedTuple):
    """What the database says about a row; the message may have values of the row."""

    state: str
    message: str


def refusal_of(error: Exception, spark: "SparkSession") -> Refusal | None:
    """Return what a database said about a row, if an error that Spark raised has its cause in one."""
    from py4j.java_gateway import is_instance_of  # type: ignore[import-untyped]

    gateway, java = spark.sparkContext._gateway, getattr(error, "java_exception", None)
    while java is not None:
        if is_instance_of(gateway, java, _SQL_ERROR):
            for each in reversed([*_chained(java)]):  # most drivers chain the error of the row last
                state = str(each.getSQLState() or "")
                if state[:2] in _OF_A_ROW:
                    return Refusal(state, shorten(clean(str(each.getMessage()))))
        java = java.getCause()
    return None


def _chained(java: Any) -> Iterator[Any]:
    """Yield an error of a database, and those that follow it."""
    for _ in range(PIPELINE_LEFT_OUT_MAX):
        if java is None:
            return
        yield java
        java = java.getNextException()
