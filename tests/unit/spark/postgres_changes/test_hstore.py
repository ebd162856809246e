"""Changes of a table with columns of the extension hstore, which the server of the other tests does not have."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from tests.postgres_server import started_server
from tests.unit.spark.postgres_changes.changes_run import ChangesRun

from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes

pytestmark = pytest.mark.slow


def test_hstore_is_the_text_of_a_json_object(tmp_path: Path) -> None:
    """Arrays of hstore had PostgreSQL's own text, and a value out of line had a text that is not JSON."""
    with (
        started_server(extension="hstore") as server,
        psycopg.connect(server.url, autocommit=True) as database,
    ):
        database.execute("CREATE EXTENSION hstore")
        database.execute("CREATE TABLE items (id int PRIMARY KEY, n int, pairs hstore, many hstore[])")
        database.execute("ALTER TABLE items ALTER pairs SET STORAGE EXTERNAL")
        pairs = """'a=>1, "b c"=>NULL'::hstore"""
        database.execute(f"INSERT INTO items VALUES (1, 1, {pairs}, ARRAY[{pairs}, NULL, ''])".encode())
        run = ChangesRun(postgres_changes(server.url, tables="items"), tmp_path)
        try:
            found = [json.loads(event["after"]) for event in run.drain()]
            database.execute("UPDATE items SET pairs = hstore('long', repeat('x', 10000))")
            database.execute("UPDATE items SET n = 2")
            found += [json.loads(event["after"]) for event in run.drain()]
        finally:
            run.crash()
    text = '{"a":"1","b c":null}'
    assert found[0] == {"id": 1, "n": 1, "pairs": text, "many": [text, None, "{}"]}
    assert [json.loads(row["pairs"]) for row in found[1:]] == [
        {"long": "x" * 10_000},
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    ]
