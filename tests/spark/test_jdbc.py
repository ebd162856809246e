"""Tables by JDBC, with the driver of Derby, which Spark brings along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.conftest import require_spark
from tests.spark.one_run import run_pipeline

from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.error_policy import check_errors
from tailrace.spark.connector.jdbc import jdbc
from tailrace.spark.error import PipelineError, RowRefused
from tailrace.spark.record_place import ORIGIN
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

require_spark()
FLOW = """
name: copied
source: {{connector: jdbc, url: "{url}", table: numbers, cursor: N}}
sql: SELECT N, upper(NOTE) AS note FROM source
sink: {{connector: jdbc, url: "{url}", table: copies}}
"""


@pytest.fixture(autouse=True)
def derby_log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have Derby write its log elsewhere than in the current folder."""
    log = tmp_path_factory.mktemp("derby") / "derby.log"
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(log))  # type: ignore[union-attr]


@pytest.mark.slow
def test_each_start_reads_what_is_new(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/database;create=true"
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW.format(url=url))
    for numbers in (range(3), range(3, 5)):
        rows = [(number, f"n{number}") for number in numbers]
        spark.createDataFrame(rows, "N int, NOTE string").coalesce(1).write.jdbc(url, "numbers", "append")
        run_pipeline(spark, broker, path)
    copies = spark.read.jdbc(url, "copies").orderBy("N").collect()
    assert [tuple(row) for row in copies] == [(number, f"N{number}") for number in range(5)]


@pytest.mark.slow
def test_a_highest_row_that_is_away_for_a_while_is_not_read_twice(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The flow followed the highest cursor down, as a replica that is behind shows it, and read the row again."""
    url = f"jdbc:derby:{tmp_path}/database;create=true"
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW.format(url=url))
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)  # type: ignore[union-attr]
    spark.createDataFrame([(9, "a"), (10, "b")], "N int, NOTE string").write.jdbc(url, "numbers", "append")
    run_pipeline(spark, broker, path)
    connection.createStatement().execute("DELETE FROM numbers WHERE N = 10")
    run_pipeline(spark, broker, path)
    spark.createDataFrame([(10, "b"), (11, "c")], "N int, NOTE string").write.jdbc(url, "numbers", "append")
    run_pipeline(spark, broker, path)
    copies = spark.read.jdbc(url, "copies").orderBy("N").collect()
    assert [row["N"] for row in copies] == [9, 10, 11]


def test_a_missing_driver_and_a_missing_table_are_named(spark: SparkSession, tmp_path: Path) -> None:
    start = FlowStart(spark, FlowPlace("copied", tmp_path, tmp_path))
    missing = jdbc("jdbc:oracle:thin://me:very-secret@db/sales?password=very-secret", table="t")
    with pytest.raises(PipelineError, match=r"--conf spark.jars=FILE.jar") as caught:
        missing.read(start)
    assert "very-secret" not in str(caught.value)
    assert "very-secret" not in repr(missing)
    with pytest.raises(PipelineError, match=r"cannot be read: .*T_UNKNOWN.* does not exist"):
        jdbc(f"jdbc:derby:{tmp_path}/other;create=true", table="t_unknown").read(start)
    with pytest.raises(PipelineError, match="either table= or query="):
        jdbc("jdbc:derby:x")


def test_a_refused_row_is_found_without_writing(spark: SparkSession, tmp_path: Path) -> None:
    """The rows that other tasks have committed would be refused as well, if they were written again."""
    url = f"jdbc:derby:{tmp_path}/database;create=true"
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)  # type: ignore[union-attr]
    connection.createStatement().execute("CREATE TABLE numbers (N BIGINT PRIMARY KEY CHECK (N < 27))")
    place = FlowPlace("copied", tmp_path, tmp_path)
    batch = spark.range(0, 40, 1, 4).selectExpr("id AS N", f"concat('numbers 0 ', id) AS {ORIGIN}")
    expected = r'numbers-0 offset 27: jdbc numbers .* refuses a row: .* \(\{"N": 27\}\)'
    with pytest.raises(RowRefused, match=expected):
        jdbc(url, table="numbers").write_batch(batch.where("N < 30"), 0, place)
    assert {row["N"] for row in spark.read.jdbc(url, "numbers").collect()} <= {*range(20)}

    connection.createStatement().execute("DELETE FROM numbers")
    twice = batch.where("N < 20").selectExpr("if(N = 15, 12, N) AS N", ORIGIN)
    with pytest.raises(RowRefused, match=r"numbers-0 offset 15: .*duplicate key"):
        jdbc(url, table="numbers", options={"numPartitions": "2"}).write_batch(twice, 1, place)
    assert {row["N"] for row in spark.read.jdbc(url, "numbers").collect()} == set()


def test_no_row_is_searched_for_without_transactions(spark: SparkSession, tmp_path: Path) -> None:
    """The search would write rows."""
    url = f"jdbc:derby:{tmp_path}/database;create=true"
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)  # type: ignore[union-attr]
    connection.createStatement().execute("CREATE TABLE numbers (N BIGINT CHECK (N < 5))")
    sink = jdbc(url, table="numbers", options={"isolationLevel": "NONE", "batchsize": "1"})
    with pytest.raises(Exception, match="check constraint") as caught:
        sink.write_batch(spark.range(0, 9, 1, 1).selectExpr("id AS N"), 0, FlowPlace("copied", tmp_path, tmp_path))
    assert not isinstance(caught.value, RowRefused)
    assert spark.read.jdbc(url, "numbers").count() == 5


def test_rows_are_left_out_only_with_transactions(tmp_path: Path) -> None:
    sink = jdbc("jdbc:derby:x", table="t", options={"isolationLevel": "none"})
    sink.connect_sink(FlowPlace("copied", tmp_path, tmp_path))
    with pytest.raises(PipelineError, match="needs transactions, and isolationLevel is NONE"):
        sink.connect_sink(FlowPlace("copied", tmp_path, tmp_path, errors=check_errors("skip")))
