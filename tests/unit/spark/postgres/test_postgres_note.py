"""The notes of batches in a database: repetitions, other batches of the same number, and notes of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.types import IntegerType, StructType

from tailrace.spark.connector.base import FlowPlace
from tailrace.spark.connector.postgres.connection import parse_database
from tailrace.spark.connector.postgres.merge import Note
from tailrace.spark.connector.postgres.sink import TableSink
from tailrace.spark.connector.postgres.table import BATCHES, TableName, set_up
from tailrace.spark.error import ConnectorError

pytestmark = pytest.mark.slow

QUERY_ID = "7d4b1c1e-0000-4000-8000-000000000000"
SCHEMA = StructType().add("id", IntegerType())
EARLIER = "flow text NOT NULL, query_id text NOT NULL, batch_id bigint NOT NULL, committed_at timestamptz DEFAULT now()"


@pytest.fixture
def table(connection: psycopg.Connection[Any], name: str) -> TableName:
    """A table in a schema of its own."""
    connection.execute(f"CREATE SCHEMA {name}")
    return TableName("orders", name)


def prepare(connection: psycopg.Connection[Any], table: TableName) -> None:
    set_up(connection, table, SCHEMA, (), evolve=True, with_batches=True)


def test_another_batch_of_the_same_number_is_an_error(connection: psycopg.Connection[Any], table: TableName) -> None:
    """It was left out as a repeated one, although an older copy of the checkpoint had been put back."""
    prepare(connection, table)
    for batch_id in (3, 4):
        assert Note("flow", QUERY_ID, batch_id, f"{batch_id}:a").write(connection, table)
    assert Note("flow", QUERY_ID, 4, "4:a").is_written(connection, table)
    with pytest.raises(ConnectorError, match=f"batch 4 anew, and table {table} has another batch 4"):
        Note("flow", QUERY_ID, 4, "4:b").is_written(connection, table)
    assert not Note("flow", QUERY_ID, 5, "5:a").is_written(connection, table)


def test_a_sink_notes_the_plan_of_its_batch(
    connection: psycopg.Connection[Any], postgres_server: PostgresServer, table: TableName, tmp_path: Path
) -> None:
    prepare(connection, table)
    assert Note("flow", QUERY_ID, 4, "4:a").write(connection, table)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    (tmp_path / "offsets" / "4").write_text('v1\n{}\n{"orders":{"0":7}}')
    sink = TableSink(parse_database("test", postgres_server.url), table)
    batch: Any = None
    with pytest.raises(ConnectorError, match="batch 4 anew"):
        sink.write(batch, 4, FlowPlace("flow", tmp_path, tmp_path))


def test_notes_of_an_earlier_version_are_taken(connection: psycopg.Connection[Any], table: TableName) -> None:
    batches = f"{table.schema}.{BATCHES}"
    connection.execute(f"CREATE TABLE {batches} ({EARLIER}, PRIMARY KEY (flow, query_id))")
    connection.execute(f"INSERT INTO {batches} VALUES ('flow', %s, 4, now())", [QUERY_ID])
    prepare(connection, table)
    assert Note("flow", QUERY_ID, 4, "4:a").is_written(connection, table)
    assert Note("flow", QUERY_ID, 5, "5:a").write(connection, table)
    prepare(connection, table)
    with pytest.raises(ConnectorError, match="another batch 5"):
        Note("flow", QUERY_ID, 5, "5:b").is_written(connection, table)
    connection.execute(f"UPDATE {batches} SET batch_id = 6")  # as an earlier version goes on
    assert Note("flow", QUERY_ID, 6, "6:b").is_written(connection, table)


def test_the_owner_of_an_earlier_table_of_batches_is_asked_for(
    connection: psycopg.Connection[Any], table: TableName, name: str
) -> None:
    connection.execute(f"CREATE TABLE {name}.{BATCHES} ({EARLIER}, PRIMARY KEY (flow, query_id))")
    connection.execute(f"CREATE ROLE {name}; GRANT ALL ON SCHEMA {name} TO {name}")
    connection.execute(f"GRANT ALL ON {name}.{BATCHES} TO {name}; SET ROLE {name}")
    command = f'ALTER TABLE "{name}"."{BATCHES}" ADD COLUMN IF NOT EXISTS "plan" text'
    with pytest.raises(
        ConnectorError, match=f"table {BATCHES}: table {BATCHES} was made by .*; run {command} as its owner"
    ):
        prepare(connection, table)
    connection.execute("RESET ROLE")
    connection.execute(command)
    connection.execute(f"SET ROLE {name}")
    prepare(connection, table)
    connection.execute(f"RESET ROLE; DROP SCHEMA {name} CASCADE; DROP ROLE {name}")
