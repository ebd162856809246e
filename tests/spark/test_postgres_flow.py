"""Flows from a topic to PostgreSQL and from table to table, whose database is killed and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.postgres_server import PASSWORD, PostgresServer, started_server
from tests.spark.conftest import require_spark
from tests.spark.waiting import wait_until

from tailrace.client.produce.producer import Producer
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_flow
from tailrace.spark.pipeline.run import PipelineRun
from tailrace.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

require_spark()
pytestmark = pytest.mark.slow

FLOWS = """
name: stored
source: {{connector: topic, name: {topic}, schema: "id bigint, note string"}}
sink: {{connector: postgres, url: "{url}", table: orders, mode: append}}
---
name: copied
source: {{connector: postgres, url: "{url}", table: events, cursor: id}}
sql: SELECT id, upper(note) AS note FROM source
sink: {{connector: postgres, url: "{url}", table: copies, mode: append}}
"""

HASH = "SELECT count(*), count(DISTINCT id), sum(hashtext(id || coalesce(upper(note), '')))"


def test_flows_outlast_the_database(
    spark: SparkSession, broker: Broker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2)
    path = tmp_path / "flows.yaml"
    said: list[str] = []
    with started_server() as server:
        execute(server, "CREATE TABLE events (id bigint PRIMARY KEY, note text)")
        path.write_text(FLOWS.format(topic=topic, url=server.url))
        pipeline = load_pipeline(path)
        client = {"bootstrap.servers": broker.bootstrap_servers}
        plans = [plan_flow(flow, client, checkpoints_of(path), path.parent) for flow in pipeline.flows]
        running = PipelineRun(spark, pipeline, plans, say=said.append)
        try:
            running.build()
            running.start()
            for rounds in range(3):
                numbers = range(rounds * 500, rounds * 500 + 500)
                with Producer(broker.bootstrap_servers) as producer:
                    for number in numbers:
                        producer.send(topic, json.dumps({"id": number, "note": f"n{number}"}).encode())
                execute(
                    server, f"INSERT INTO events SELECT n, 'n' || n FROM generate_series({numbers[0]}, {numbers[-1]}) n"
                )
                if rounds:
                    server.kill()
                    wait_until(lambda: not running_well(running, count=2), timeout_s=300)
                    server.start()
                wait_until(partial(has_all, running, server, numbers[-1] + 1), timeout_s=240, why=lambda: str(said))
        finally:
            running.stop()
        for table in ("orders", "copies"):
            assert execute(server, f"{HASH} FROM {table}") == execute(server, f"{HASH} FROM events"), table
        assert execute(server, "SELECT relname FROM pg_class WHERE relname LIKE 'tailrace_staging%'") == []
    assert any("cannot be reached" in line or "connection" in line for line in said), said
    assert PASSWORD not in str(said)
    written = [file for file in checkpoints_of(path).rglob("*") if file.is_file()]
    assert all(PASSWORD.encode() not in file.read_bytes() for file in written)


def running_well(running: PipelineRun, count: int) -> bool:
    """Look at the flows, as the runner does; returns whether so many run."""
    running.check()
    return sum(tally.state == "running" for tally in running.snapshot()) >= count


def has_all(running: PipelineRun, server: PostgresServer, count: int) -> bool:
    running.check()
    found = execute(server, "SELECT to_regclass('orders') IS NOT NULL AND to_regclass('copies') IS NOT NULL")
    if found != [(True,)]:
        return False
    found = execute(server, "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM copies)")
    return found == [(count, count)]


def execute(server: PostgresServer, command: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.url) as connection:
        found = connection.execute(command)
        return found.fetchall() if found.description else []
