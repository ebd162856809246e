"""Pipelines in YAML, and what a check shows of a pipeline before it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.conftest import CHECKOUT
from tests.spark.one_run import run_pipeline

from tailrace.client.admin.sync import Admin
from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.protocol.errors import ApiError
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.pipeline.error import FlowError
from tailrace.spark.pipeline.expectation import Expectation, OnFail, apply_expectations
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.spark.pipeline.sample import Sample
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def send(broker: Broker, topic: str, *values: Any) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, json.dumps(value).encode())


def values(broker: Broker, topic: str) -> list[Any]:
    found = read_table(broker.bootstrap_servers, topic, columns=["value"]).column("value").to_pylist()
    return [json.loads(value) for value in found]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def sample(spark: SparkSession, broker: Broker, path: Path, row_count: int = 5) -> list[Sample]:
    """Check every flow of a file, as `tailrace pipeline check` does."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    pipeline = load_pipeline(path)
    plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
    running = PipelineRun(spark, pipeline, plans)
    running.build()
    return [running.sample(plan, row_count) for plan in plans]


def query_file(tmp_path: Path, source: str, sink: str, query: str) -> Path:
    text = f"""
name: large
source: {{connector: topic, name: {source}, schema: "user string, cents bigint"}}
sql: {query}
sink: {{connector: topic, name: {sink}, key: user}}
"""
    return write(tmp_path / "pipe.yaml", text)


def test_a_query_runs_over_a_topic(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_topic(2), new_topic()
    send(broker, source, *({"user": f"u{n}", "cents": n} for n in range(10)))
    run_pipeline(spark, broker, query_file(tmp_path, source, sink, "SELECT user, cents FROM source WHERE cents > 6"))
    assert sorted(row["cents"] for row in values(broker, sink)) == [7, 8, 9]


@pytest.mark.slow
def test_a_query_joins_sources_by_their_names(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    orders, users, sink = new_topic(), new_topic(), new_topic()
    send(broker, orders, {"id": 1, "cents": 5}, {"id": 2, "cents": 6})
    send(broker, users, {"id": 2, "name": "bob"})
    text = f"""
name: joined
sources:
  orders: {{connector: topic, name: {orders}, schema: "id int, cents int"}}
  users: {{connector: topic, name: {users}, schema: "id int, name string"}}
sql: SELECT name, cents FROM orders JOIN users USING (id)
sink: {{connector: topic, name: {sink}}}
"""
    run_pipeline(spark, broker, write(tmp_path / "join.yaml", text))
    assert values(broker, sink) == [{"name": "bob", "cents": 6}]
    assert not spark.catalog.tableExists("orders")


def test_a_query_that_spark_refuses_is_told_in_one_line(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    path = query_file(tmp_path, new_topic(), new_topic(), "SELECT nothing FROM source")
    with pytest.raises(FlowError, match=r"^flow large: .*`nothing`.*cannot be resolved"):
        sample(spark, broker, path)


SIX_LINES = """\
name: large
source:
  connector: topic
  name: {source}
  schema: "user string, cents bigint"
sink: {{connector: topic, name: {source}-sink}}
"""


@pytest.mark.parametrize(
    ("query", "line", "reason"),
    [
        ("SELECT usr FROM source", 7, "A column, .*`usr` cannot be resolved.*`user`.*]$"),
        ("SELECT user\n  FRM source", 7, "Syntax error at or near 'source': extra input 'source'$"),
        ("|\n  SELECT user,\n    centz\n  FROM source", 9, "A column, .*`centz` cannot be resolved"),
        ("|\n  SELECT user\n    FRM source", 9, "Syntax error at or near 'source'"),
    ],
)
def test_an_error_in_a_query_names_the_line_of_the_file(
    spark: SparkSession,
    broker: Broker,
    new_topic: Callable[..., str],
    tmp_path: Path,
    query: str,
    line: int,
    reason: str,
) -> None:
    path = write(tmp_path / "pipe.yaml", f"{SIX_LINES.format(source=new_topic())}sql: {query}\n")
    with pytest.raises(FlowError, match=rf"^flow large: pipe\.yaml:{line}: {reason}"):
        sample(spark, broker, path)


@pytest.mark.slow
def test_the_command_says_what_is_wrong_in_one_line(
    broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Pyspark logged errors of SQL before the line of the command: some 10,000 characters of JSON, with the plan."""
    path = write(tmp_path / "pipe.yaml", f"{SIX_LINES.format(source=new_topic())}sql: SELECT usr FROM source\n")
    command = [sys.executable, "-m", "tailrace", "pipeline", "check", str(path)]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    shown = subprocess.run(command, cwd=CHECKOUT / "src", capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    lines = shown.stderr.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("tailrace: flow large: pipe.yaml:7: A column")


def test_a_check_shows_the_newest_rows_and_leaves_nothing_behind(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_topic(), f"{new_topic()}-new"
    send(broker, source, *({"user": "ann", "cents": n} for n in range(150)))
    path = query_file(
        tmp_path, source, sink, "SELECT min(cents) AS first, count(*) AS n, user FROM source GROUP BY user"
    )
    path.write_text(path.read_text() + "mode: complete\n")
    (found,) = sample(spark, broker, path)
    assert found == Sample(
        {"first": "bigint", "n": "bigint", "user": "string"}, [{"first": 50, "n": 100, "user": "ann"}]
    )
    assert not checkpoints_of(path).exists()
    with Admin(broker.bootstrap_servers) as admin:
        assert isinstance(admin.describe_topics([sink])[sink], ApiError)


@pytest.mark.slow
def test_a_check_knows_the_columns_of_a_topic_that_another_flow_will_write(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source = new_topic()
    between = f"{source}-between"
    send(broker, source, {"n": 1})
    text = f"""
name: first
source: {{connector: topic, name: {source}, schema: "n int"}}
sink: {{connector: topic, name: {between}}}
---
name: second
source: {{connector: topic, name: {between}, schema: "n int"}}
sql: SELECT n * 2 AS twice FROM source
sink: {{connector: files, path: out}}
"""
    assert sample(spark, broker, write(tmp_path / "two.yaml", text)) == [
        Sample({"n": "int"}, [{"n": 1}]),
        Sample({"twice": "int"}, [], (between,)),
    ]


@pytest.mark.slow
def test_the_command_prints_a_sample(broker: Broker, new_topic: Callable[..., str], tmp_path: Path) -> None:
    source = new_topic()
    send(broker, source, {"user": "ann", "cents": 7}, {"user": "bob", "cents": 8})
    path = query_file(tmp_path, source, "sink-of-a-check", "SELECT user, cents FROM source WHERE cents > 7")
    command = [sys.executable, "-m", "tailrace", "pipeline", "check", str(path)]
    command += ["--bootstrap-server", broker.bootstrap_servers]
    shown = subprocess.run(command, cwd=CHECKOUT / "src", capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "tailrace: starting Spark, which takes some seconds",
        f"tailrace: flow large is correct: topic {source} -> topic sink-of-a-check, mode append",
        "  columns: user string, cents bigint",
        "bob\t8",
    ]
    as_json = subprocess.run([*command, "--json"], cwd=CHECKOUT / "src", capture_output=True, text=True, check=True)
    (document,) = json.loads(as_json.stdout)
    assert (document["flow"], document["rows"]) == ("large", [{"user": "bob", "cents": 8}])


# --- expectations


def expecting(tmp_path: Path, source: str, sink: str, expect: str) -> Path:
    path = query_file(tmp_path, source, sink, "SELECT user, cents FROM source")
    path.write_text(f"{path.read_text()}expect: {expect}\n")
    return path


def test_rows_that_break_a_rule_are_counted_and_dropped_if_it_says_so(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    send(
        broker, source, {"user": "a", "cents": 1}, {"user": "b", "cents": -1}, {"user": "c"}, {"user": "d", "cents": 2}
    )
    rules = '{positive: {rule: "cents > 0", on_fail: drop}, small: "cents < 2"}'
    running = run_pipeline(spark, broker, expecting(tmp_path, source, sink, rules))
    assert [row["user"] for row in values(broker, sink)] == ["a", "d"]
    (tally,) = running.snapshot()
    assert tally.broken == {"positive": 2, "small": 2}  # a null is neither positive nor small


@pytest.mark.slow
def test_a_row_that_breaks_a_rule_stops_the_flow_if_it_says_so(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    send(broker, source, {"user": "b", "cents": -1})
    path = expecting(tmp_path, source, sink, '{positive: {rule: "cents > 0", on_fail: fail}}')
    with pytest.raises(FlowError, match=r'expectation positive \(cents > 0\) is broken by the row .*"user":"b"'):
        run_pipeline(spark, broker, path)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("price > 0", r"flow large: expectation x: 'price > 0' is not a rule: A column.*`price` cannot.*\]$"),
        ("cents", "'cents' is bigint, not true"),
        ("cents >", r"expectation x: 'cents >' is not a rule: Syntax error at or near end of input$"),
        ("max(cents) > 0", r"expectation x: 'max\(cents\) > 0' is not a rule: "),
    ],
)
def test_a_rule_over_other_columns_is_refused_before_the_flow_starts(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path, rule: str, message: str
) -> None:
    path = expecting(tmp_path, new_topic(), new_topic(), f'{{x: "{rule}"}}')
    with pytest.raises(FlowError, match=message):
        sample(spark, broker, path)


def test_a_rule_that_stops_a_flow_takes_columns_with_backticks(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS `a``b`")
    rule = Expectation("x", "`a``b` > 0", OnFail.FAIL)
    assert apply_expectations(rows, [rule], Rejects("f")).columns == ["a`b"]
