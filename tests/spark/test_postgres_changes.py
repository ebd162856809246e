"""Changes of PostgreSQL tables as the source of flows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.postgres_server import PASSWORD
from tests.spark.one_run import run_pipeline

from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIPELINE = """\
from tailrace.pipeline import files, flow, postgres_changes, topic

@flow(source=postgres_changes("{url}", tables="{table}", slot="{table}_a", format="records"),
      sink=topic("{topic}", format="raw"))
def {table}_records(changes):
    return changes

@flow(source=postgres_changes("{url}", tables="{table}", slot="{table}_b", schema="id int, name string"),
      sink=files("out"))
def {table}_columns(changes):
    return changes.selectExpr("op", "coalesce(after.id, before.id) AS id", "after.name AS name", "source.lsn AS lsn")
"""


@pytest.mark.slow
def test_a_flow_copies_a_snapshot_and_then_the_changes_exactly_once(
    spark: SparkSession,
    broker: Broker,
    read: Callable[..., DataFrame],
    new_topic: Callable[..., str],
    postgres_server: Any,
    tmp_path: Path,
) -> None:
    import psycopg

    name, table = new_topic(), "flow_items"
    path = tmp_path / "item_changes.py"
    path.write_text(PIPELINE.format(url=postgres_server.url, table=table, topic=name))
    with psycopg.connect(postgres_server.url, autocommit=True) as database:
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text)")
        database.execute(f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two')")
        assert sample(spark, broker, path) == [{"op": "r", "id": 1, "name": "one"}, {"op": "r", "id": 2, "name": "two"}]
        slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'flow_items%'"
        assert database.execute(slots).fetchone() == (0,)  # a check creates nothing
        run_pipeline(spark, broker, path)
        database.execute(f"UPDATE {table} SET name = 'new' WHERE id = 1")
        database.execute(f"DELETE FROM {table} WHERE id = 2")
        run_pipeline(spark, broker, path)
        assert database.execute(slots).fetchone() == (2,)
        for slot in (f"{table}_a", f"{table}_b"):
            database.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    records = read(subscribe=name).orderBy("offset").collect()
    found = [(bytes(record.key).decode(), record.value and json.loads(record.value)) for record in records]
    assert sorted((key, value["op"]) for key, value in found[:2]) == [('{"id":1}', "r"), ('{"id":2}', "r")]
    assert [(key, value and value["op"]) for key, value in found[2:]] == [
        ('{"id":1}', "u"),
        ('{"id":2}', "d"),
        ('{"id":2}', None),
    ]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    # The first change may have the very position of the snapshot.
    rows.sort(key=lambda row: (row.op != "r", row.lsn, row.id))
    assert [(row.op, row.id, row.name) for row in rows] == [
        ("r", 1, "one"),
        ("r", 2, "two"),
        ("u", 1, "new"),
        ("d", 2, None),
    ]
    notes = [file for file in (tmp_path / ".tailrace").rglob("*") if file.is_file()]
    assert notes
    assert not any(PASSWORD.encode() in file.read_bytes() for file in notes)


def sample(spark: SparkSession, broker: Broker, path: Path) -> list[dict[str, Any]]:
    """Return the sample of the second flow, as `tailrace pipeline check` shows it."""
    pipeline = load_pipeline(path)
    client = {"bootstrap.servers": broker.bootstrap_servers}
    plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
    rows = PipelineRun(spark, pipeline, plans).sample(plans[1], 5).rows
    return [{name: row[name] for name in ("op", "id", "name")} for row in rows]
