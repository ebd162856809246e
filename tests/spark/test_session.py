"""Sessions: with what they start. On which Java, the test of the main job shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tailrace.spark
from tailrace.spark.error import SessionError
from tailrace.spark.worker_python import find_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_defaults_and_what_a_user_says(spark: SparkSession) -> None:
    def setting(name: str) -> str | None:
        return spark.conf.get(f"spark.{name}", None)

    assert setting("sql.session.timeZone") == "UTC"
    assert setting("sql.python.filterPushdown.enabled") == "true"
    assert setting("sql.execution.arrow.pyspark.enabled") == "true"
    assert setting("driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.master == "local[2]"
    assert tailrace.spark.session(config={"spark.sql.shuffle.partitions": 3}) is not None
    assert setting("sql.shuffle.partitions") == "3"


def test_the_workers_of_data_sources_do_not_compile_pyspark_each_time(spark: SparkSession) -> None:
    """The driver's variable went first and named the plain Python, so each source took a second more of its ten."""
    import pyspark

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    default = getattr(getattr(jvm.org.apache.spark.api.python, "PythonUtils$"), "MODULE$").defaultPythonExec()
    assert default == spark.sparkContext.pythonExec
    assert default == str(find_worker_python(Path(pyspark.__file__).parent))


def test_registering_by_hand_does_no_harm(spark: SparkSession) -> None:
    tailrace.spark.register(spark)


def test_a_log_level_that_is_none_is_refused() -> None:
    with pytest.raises(SessionError, match="log_level 'loud' is not one of off, fatal, error"):
        tailrace.spark.session(log_level="loud")


def test_a_user_without_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers may run with any user id. Java's login fails without a name, and its stack trace did not say so."""
    monkeypatch.setattr("os.getuid", lambda: 3_000_000)
    with pytest.raises(
        SessionError, match="user id 3000000 has none on this machine: add a line for it to /etc/passwd"
    ):
        tailrace.spark.session()
