"""The page about one's own connector, whose code is run, and formats of Spark."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.conftest import CHECKOUT
from tests.spark.one_run import run_pipeline

from tailrace.client.fetch.table import read_table
from tailrace.pipeline import PipelineError, spark
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart
from tailrace.spark.pipeline.plan import checkpoints_of
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = CHECKOUT / "docs" / "connectors" / "own.md"


def test_the_code_of_the_page_writes_each_batch_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 1
    file = tmp_path / "words.py"
    file.write_text(blocks[0])
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one.txt").write_text("to be\nor not\nto be\n")
    run_pipeline(spark, broker, file)
    # Without its record of the commit, Spark repeats the batch.
    for record in (checkpoints_of(file) / "first_words" / "commits").glob("*0*"):
        record.unlink()
    (tmp_path / "lines" / "two.txt").write_text("that is\n")
    run_pipeline(spark, broker, file)
    with sqlite3.connect(tmp_path / "words.db") as database:
        found = database.execute("SELECT word, line FROM words ORDER BY line").fetchall()
        assert database.execute("SELECT count(*) FROM batches").fetchall() == [(2,)]
    database.close()
    assert found == [("or", "or not"), ("that", "that is"), ("to", "to be"), ("to", "to be")]


def test_a_format_of_spark_is_a_source(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    target = new_topic()
    file = tmp_path / "formats.yaml"
    options = "{rowsPerBatch: 5, numPartitions: 1}"
    file.write_text(f"""
name: ticks
source: {{connector: spark, format: rate-micro-batch, options: {options}}}
sql: SELECT value AS number FROM source WHERE value < 5
sink: {{connector: topic, name: {target}}}
""")
    run_pipeline(spark, broker, file)
    found = read_table(broker.bootstrap_servers, target).column("value").to_pylist()
    assert found == [f'{{"number":{number}}}'.encode() for number in range(5)]


def test_a_format_that_is_only_for_batches_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    start = FlowStart(spark, FlowPlace("f", tmp_path, tmp_path))
    source = _spark("range_of_nothing")
    with pytest.raises(PipelineError, match=r"spark format range_of_nothing cannot be read as a stream: .*find"):
        source.read(start)
    with pytest.raises(PipelineError, match=r"spark format jdbc cannot be read as a stream: .*stream"):
        _spark("jdbc", options={"url": "jdbc:none:", "dbtable": "t"}).read(start)
    assert _spark("rate").sample(start).columns == ["timestamp", "value"]
    assert _spark("noop").deliveries[0] is Delivery.AT_LEAST_ONCE
    assert _spark("noop", exactly_once=True).deliveries[0] is Delivery.EXACTLY_ONCE


_spark = spark
