"""The lines of one file as source and sink, through translated FileStream configurations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.spark.conftest import require_spark
from tests.spark.one_run import run_pipeline

from tailrace.connect.plugin.translation import translate
from tailrace.spark.connector.base import FlowPlace, FlowStart
from tailrace.spark.connector.lines.append import NOTE
from tailrace.spark.connector.lines.lines import lines
from tailrace.spark.error import PipelineError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require_spark()
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}


@pytest.mark.slow
def test_lines_go_through_a_topic_to_another_file(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Kafka's quickstart: a file, a topic and a file, with JSON in between."""
    source = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines_test"} | JSON
    sink = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": "lines_test"} | JSON
    for name, config in (("source", source), ("sink", sink)):
        documents = translate(name, config).documents
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))
    into, out = tmp_path / "in.txt", tmp_path / "out.txt"
    into.write_text('foo\n"bar" ä\n\nhalf')
    for expected in ('foo\n"bar" ä\n\n', 'foo\n"bar" ä\n\nhalf a line\nlast\n'):
        run_pipeline(spark, broker, tmp_path / "source.yaml")
        run_pipeline(spark, broker, tmp_path / "sink.yaml")
        assert sorted(out.read_text().splitlines()) == sorted(expected.splitlines())
        with into.open("a") as file:
            file.write(" a line\nlast\n")


def test_a_batch_is_appended_once(spark: SparkSession, tmp_path: Path) -> None:
    place = FlowPlace("sink", tmp_path / "checkpoint", tmp_path)
    rows = spark.createDataFrame([("a",), (None,), ("b",)], "value string").coalesce(1)
    repeated = lines("repeated.txt")
    repeated.write_batch(rows, 0, place)
    repeated.write_batch(rows, 0, place)
    assert (tmp_path / "repeated.txt").read_text() == "a\n\nb\n"
    note = (place.checkpoint / NOTE).read_text()
    (place.checkpoint / NOTE).write_text(note.replace("true", "false"))
    repeated.write_batch(rows.limit(1), 0, place)
    assert (tmp_path / "repeated.txt").read_text() == "a\n"

    start = FlowStart(spark, place)
    assert [row.value for row in lines("repeated.txt").sample(start).collect()] == ["a"]
    with pytest.raises(PipelineError, match="a line is one column, which is a string, and the result has id bigint"):
        repeated.prepare(spark.range(1), start)
