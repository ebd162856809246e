"""Folders of files as sources and sinks: every format, rows and files that are wrong, and samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.one_run import run_pipeline

from tailrace.cli.demo.check import read_parquet
from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.files import NOT_A_ROW, Files, files
from tailrace.spark.error import PipelineError
from tailrace.spark.pipeline.cause import explain_failure
from tailrace.spark.pipeline.error import FlowError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOWS = """\
name: to_orc
source: {connector: files, path: in, format: csv, schema: "user string, cents bigint"}
errors: skip
sql: SELECT user, cents * 2 AS cents FROM source
sink: {connector: files, path: orc, format: orc, partition_by: user}
---
name: to_text
source: {connector: files, path: lines, format: json, schema: "user string, cents bigint", malformed: "null"}
sql: SELECT coalesce(concat(user, ' ', cents), 'nothing') AS value FROM source
sink: {connector: files, path: text, format: text}
---
name: to_csv
source: {connector: files, path: rows}
sink: {connector: files, path: csv, format: csv}
---
name: to_avro
source: {connector: files, path: rows}
sink: {connector: files, path: avro, format: avro}
"""


def start_of(spark: SparkSession, folder: Path) -> FlowStart:
    return FlowStart(spark, FlowPlace("flow", folder / "checkpoint", folder))


@pytest.mark.slow
def test_rows_go_from_one_format_to_another_and_a_second_run_reads_only_new_files(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    path = tmp_path / "pipe.yaml"
    path.write_text(FLOWS)
    for name in ("in", "lines", "rows"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "1.csv").write_text("user,cents\nann,1\nbob,not a number\n")
    (tmp_path / "lines" / "1.json").write_text('{"user": "ann", "cents": 1}\nnot JSON\n')
    pq.write_table(pa.table({"user": ["ann"], "cents": pa.array([1], pa.int32())}), tmp_path / "rows" / "1.parquet")
    run = run_pipeline(spark, broker, path)
    assert run.tallies["to_orc"].rejected == {NOT_A_ROW: 1}
    (tmp_path / "in" / "2.csv").write_text("user,cents\ncid,3\n")
    run_pipeline(spark, broker, path)

    rows = spark.read.orc(str(tmp_path / "orc")).collect()
    assert sorted((row.user, row.cents) for row in rows) == [("ann", 2), ("cid", 6)]
    assert sorted(row.value for row in spark.read.text(str(tmp_path / "text")).collect()) == ["ann 1", "nothing"]
    written = [file.read_text() for file in (tmp_path / "csv").glob("*.csv")]
    assert [text for text in written if text] == ["user,cents\nann,1\n"]

    avro = files("avro", format="avro").sample(start_of(spark, tmp_path))
    assert [tuple(row) for row in avro.collect()] == [("ann", 1)]

    (tmp_path / "in" / "3.csv").write_text("user\ndot\n")  # a column has vanished
    with pytest.raises(FlowError) as error:
        run_pipeline(spark, broker, path)
    line = str(error.value)
    assert line.startswith("flow to_orc: file:///")
    assert "in/3.csv: Number of column in CSV header is not equal" in line
    assert "Header length: 1, schema size: 2" in line


WRONG: dict[str, tuple[dict[str, Any], str | bytes, list[str]]] = {
    "a row": (
        {"format": "json"},
        '{"cents": "many"}\n',
        ['bad.json: row is not valid for the schema ({"cents": "many"})', "set errors= of the flow"],
    ),
    "a file": ({"format": "parquet"}, b"PAR1 but no more", ["bad.parquet: ", "is not a Parquet file"]),
}


def test_wrong_files_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """Each failed read is one line that names the file, and what to do where something can be done."""
    for name, (arguments, content, words) in WRONG.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        file = folder / f"bad.{arguments['format']}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(Exception, match=r".") as error:
            files(folder, schema="cents bigint", **arguments).sample(start_of(spark, tmp_path)).collect()
        line = explain_failure(error.value, tmp_path)
        assert all(word in line for word in words), line


def test_a_type_that_changed_names_the_file_and_the_column(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"cents": ["many"]}), tmp_path / "1.parquet")
    with pytest.raises(Exception, match=r".") as error:
        files(tmp_path, schema="cents bigint").sample(start_of(spark, tmp_path)).collect()
    line = explain_failure(error.value, tmp_path)
    assert "/1.parquet: column: [cents]" in line


def test_a_sample_has_the_newest_files(spark: SparkSession, tmp_path: Path) -> None:
    import os

    start = start_of(spark, tmp_path)
    for number in range(12):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({"n": number}))
        os.utime(file, (1000 - number, 1000 - number))
    source = files(tmp_path, format="json", schema="n int")
    assert sorted(row.n for row in source.sample(start).collect()) == list(range(10))
    assert files(tmp_path, format="text").sample(start).columns == ["value"]


REFUSED: list[tuple[Files, str]] = [
    (files("empty"), r"parquet files empty: there are no files to take the schema from; give schema="),
    (files("empty", format="json", schema="n nonsense"), r"json files empty: schema 'n nonsense' is not a schema"),
]


def test_what_cannot_be_read_or_written_is_refused_before_the_flow_starts(spark: SparkSession, tmp_path: Path) -> None:
    start = start_of(spark, tmp_path)
    (tmp_path / "empty").mkdir()
    for source, message in REFUSED:
        with pytest.raises(PipelineError, match=message):
            source.read(start)
    with pytest.raises(PipelineError, match=r"there is no folder .*/nowhere; create it"):
        files("nowhere").connect_source(start.place)
    rows = spark.sql("SELECT 1 AS n, array(1) AS many")
    for sink, message in (
        (files("out", format="text"), "text has one column, which is a string, and the result has n int, many array"),
        (files("out", format="csv"), "column many is array<int>, which CSV does not have; cast it to string"),
        (files("out", partition_by="day"), "needs a column 'day'"),
    ):
        with pytest.raises(PipelineError, match=message):
            sink.prepare(rows, start)
    assert read_parquet(tmp_path / "out") == (0, None)
