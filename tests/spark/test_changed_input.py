"""Input that changes under a flow: files and tables that are damaged or have other columns, and rows that are refused.

Each flow stops with one line, or goes on as its file says, and writes every other row once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.postgres_server import PASSWORD, PostgresServer
from tests.spark.one_run import run_pipeline

from tailrace.client.fetch.table import read_table
from tailrace.client.produce.producer import Producer
from tailrace.spark.pipeline.error import FlowError
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def failure(spark: SparkSession, broker: Broker, path: Path) -> str:
    """Run a file whose flow must fail; returns its line."""
    with pytest.raises(FlowError) as caught:
        run_pipeline(spark, broker, path)
    line = str(caught.value)
    assert "\n" not in line
    assert PASSWORD not in line
    return line


def written(broker: Broker, topic: str) -> list[Any]:
    rows = read_table(broker.bootstrap_servers, topic, columns=["value"], isolation_level="read_committed")
    return sorted(json.loads(value)["n"] for value in rows.column("value").to_pylist())


def test_a_flow_goes_on_when_a_file_is_repaired(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    sink, folder, path = new_topic(), tmp_path / "in", tmp_path / "pipe.yaml"
    folder.mkdir()
    path.write_text(f"""\
name: copied
source: {{connector: files, path: in}}
sink: {{connector: topic, name: {sink}}}
""")
    pq.write_table(pa.table({"n": [1], "user": ["ann"]}), folder / "1.parquet")
    run_pipeline(spark, broker, path)
    second, third = folder / "2.parquet", folder / "3.parquet"
    second.write_bytes(b"PAR1 and no more")
    line = failure(spark, broker, path)
    assert line.startswith("flow copied: file:///")
    assert "in/2.parquet: " in line
    assert "is not a Parquet file" in line
    pq.write_table(pa.table({"n": [2], "user": ["bob"]}), second)
    run_pipeline(spark, broker, path)
    pq.write_table(pa.table({"n": ["three"], "user": ["cid"]}), third)
    line = failure(spark, broker, path)
    assert "in/3.parquet: column: [n]" in line, line
    pq.write_table(pa.table({"n": [3]}), third)  # without the column user, which is null then
    run_pipeline(spark, broker, path)
    assert written(broker, sink) == [1, 2, 3]


def test_a_column_that_a_query_needs_is_dropped(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path, postgres_server: PostgresServer
) -> None:
    sink, table, path = new_topic(), f"t{uuid.uuid4().hex[:10]}", tmp_path / "pipe.yaml"
    path.write_text(f"""\
name: copied
source:
  connector: postgres
  url: "{postgres_server.url}"
  table: {table}
  cursor: n
sql: SELECT n, note FROM source
sink: {{connector: topic, name: {sink}}}
""")
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (n bigint PRIMARY KEY, note text)")
        connection.execute(f"INSERT INTO {table} VALUES (1, 'a')")
        run_pipeline(spark, broker, path)
        connection.execute(f"ALTER TABLE {table} DROP COLUMN note")
        connection.execute(f"INSERT INTO {table} VALUES (2)")
        line = failure(spark, broker, path)
        assert line.startswith("flow copied: pipe.yaml:7: ")
        assert "`note` cannot be resolved" in line
        connection.execute(f"ALTER TABLE {table} ADD COLUMN note int")  # of another type, which JSON does not mind
        run_pipeline(spark, broker, path)
    assert written(broker, sink) == [1, 2]


REFUSED = """\
name: {errors_name}
source: {{connector: topic, name: {source}, schema: "n bigint, cents bigint"}}
sink: {{connector: postgres, url: "{url}", table: {table}_{errors_name}, key: n, create: false}}
errors: {errors}
"""


def test_a_table_refuses_one_row_in_a_thousand(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path, postgres_server: PostgresServer
) -> None:
    source, dead, table = new_topic(2), new_topic(), f"t{uuid.uuid4().hex[:10]}"
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(3_000):
            cents = -1 if number % 1_000 == 7 else 1
            producer.send(source, json.dumps({"n": number, "cents": cents}).encode(), partition=number % 2)
    given = {"source": source, "url": postgres_server.url, "table": table}
    stop, others = tmp_path / "stop.yaml", tmp_path / "others.yaml"
    stop.write_text(REFUSED.format(errors_name="stop", errors="stop", **given))
    skip = REFUSED.format(errors_name="skip", errors="skip", **given)
    others.write_text(f"{skip}---\n{REFUSED.format(errors_name='send', errors=f'{{to: {dead}}}', **given)}")
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        for name in ("stop", "skip", "send"):
            columns = "n bigint PRIMARY KEY, cents bigint CONSTRAINT positive CHECK (cents > 0)"
            connection.execute(f"CREATE TABLE {table}_{name} ({columns})")
        line = failure(spark, broker, stop)
        assert line.startswith("flow stop: "), line
        assert 'constraint "positive"' in line
        assert '"cents": -1' in line
        assert line.endswith('): to continue, set errors= of the flow to "skip" or {"to": TOPIC}')
        running = run_pipeline(spark, broker, others)
        kept = {
            name: [n for (n,) in connection.execute(f"SELECT n FROM {table}_{name} ORDER BY n").fetchall()]
            for name in ("stop", "skip", "send")
        }
    expected = [number for number in range(3_000) if number % 1_000 != 7]
    assert kept == {"stop": [], "skip": expected, "send": expected}
    for tally in running.snapshot():
        assert [(count, "positive" in reason) for reason, count in tally.rejected.items()] == [(3, True)], tally.name
    letters = read_table(broker.bootstrap_servers, dead, columns=["value", "headers"]).to_pylist()
    assert sorted(json.loads(letter["value"])["n"] for letter in letters) == [7, 1_007, 2_007]
    for letter in letters:
        headers = {each["key"]: each["value"] for each in letter["headers"]}
        assert headers["__connect.errors.connector.name"] == b"send"
        assert headers["__connect.errors.stage"] == b"TASK_PUT"
        assert b"positive" in headers["__connect.errors.exception.message"]
        assert headers["__connect.errors.exception.stacktrace"]
