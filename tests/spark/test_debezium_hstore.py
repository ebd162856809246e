"""Values of PostgreSQL's extension hstore next to Debezium's. The server of the other tests does not have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bench.cache import Unavailable
from bench.debezium import debezium_classpath, debezium_config
from bench.kafka_connect import KafkaConnect, connect_classpath
from tests.postgres_server import started_server
from tests.spark.waiting import wait_until
from tests.unit.spark.postgres_changes.changes_run import ChangesRun

from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes
from tailrace.testing import Broker

pytestmark = pytest.mark.slow

TABLE, TOPIC = "public.hstore_values", "hstore.public.hstore_values"
VALUES = (
    """'a=>1, "b c"=>NULL'""",
    "''",
    "NULL",
    r"""'"quo\"te"=>"back\\slash", "=>"=>",", ""=>"", "NULL"=>"NULL", "null"=>null'""",
    "hstore('é😀', E'line\\nend\\ttab')",
    "hstore('long', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) n))",
)
LONG_ID = len(VALUES)


def test_values_are_those_of_debezium(broker: Broker, tmp_path: Path) -> None:
    try:
        connect_classpath()
        plugin = debezium_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    broker.create_topic(TOPIC)
    with started_server(extension="hstore") as server, psycopg.connect(server.url, autocommit=True) as database:
        database.execute("CREATE EXTENSION hstore")
        database.execute(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, n int, pairs hstore, many hstore[])".encode())
        database.execute(f"ALTER TABLE {TABLE} ALTER pairs SET STORAGE EXTERNAL".encode())
        insert(database, 0)
        source = postgres_changes(server.url, tables=[TABLE], slot="ours", name="hstore", format="records")
        run = ChangesRun(source, tmp_path)
        ours = run.drain()
        with KafkaConnect(broker.bootstrap_servers, plugins=[plugin]) as connect:
            connect.create("hstore", debezium_config(server.url, [TABLE], "hstore", "theirs"))
            wait_until(lambda: len(broker.consume(TOPIC)) == len(VALUES), timeout_s=300, why=connect.log_text)
            insert(database, 10)
            database.execute(f"UPDATE {TABLE} SET n = 2 WHERE id = {LONG_ID}".encode())  # leaves out the long value
            wait_until(lambda: len(broker.consume(TOPIC)) == 2 * len(VALUES) + 1, timeout_s=300, why=connect.log_text)
        ours += run.drain()
        run.crash()
    theirs = [json.loads(record.value or b"null")["after"] for record in broker.consume(TOPIC)]
    assert theirs[-1].pop("many") is None  # of an array out of line, as in docs/connectors/postgres_changes.md
    ours_after = [json.loads(record["value"])["after"] for record in ours]
    del ours_after[-1]["many"]
    assert ours_after == theirs


def insert(database: psycopg.Connection[Any], first: int) -> None:
    for number, value in enumerate(VALUES, start=first + 1):
        database.execute(f"INSERT INTO {TABLE} VALUES ({number}, 1, {value}, ARRAY[{value}]::hstore[])".encode())
