"""Changes of a real server."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from tests.postgres_server import started_server
from tests.unit.spark.postgres_changes.changes_run import Event, Mirror, row
from tests.unit.spark.postgres_changes.conftest import OwnDatabase, RunOf

from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes
from tailrace.spark.error import RetriableConnectorError

pytestmark = pytest.mark.slow

CUSTOMERS = """\
CREATE TABLE customers (
    id int PRIMARY KEY, first_name text NOT NULL, last_name text NOT NULL, email text NOT NULL)"""
# Debezium's documented events, whose values are those of its own server: versions, times and positions differ.
DOCUMENTED_SOURCE = {
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "snapshot": "false",
    "schema": "public",
    "table": "customers",
    "xmin": None,
}
DOCUMENTED_FIELDS = {
    *("version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence", "schema", "table"),
    *("txId", "lsn", "xmin", "origin", "origin_lsn"),
}
ANNE = {"id": 1, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}


def shape(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(event["op"], row(event, "key"), row(event, "before"), row(event)) for event in events]


def test_events_are_those_that_debezium_documents(database: OwnDatabase, run_of: RunOf) -> None:
    database.run(CUSTOMERS)
    source = postgres_changes(database.url, tables="customers", name="PostgreSQL_server", format="records")
    run = run_of(source)
    run.start()
    assert run.drain() == []
    database.run(
        "INSERT INTO customers VALUES (1, 'Anne', 'Kretchmar', 'annek@noanswer.org')",
        "UPDATE customers SET first_name = 'Anne Marie' WHERE id = 1",
        "DELETE FROM customers WHERE id = 1",
        "TRUNCATE customers",
    )
    records = run.drain()
    assert [record["key"] for record in records] == ['{"id":1}'] * 4 + [None]
    assert records.pop(3)["value"] is None  # the tombstone of the delete
    create, update, delete, truncate = [json.loads(record["value"]) for record in records]
    assert {name: create[name] for name in ("before", "after", "op")} == {"before": None, "after": ANNE, "op": "c"}
    assert (update["before"], update["after"], update["op"]) == ({"id": 1}, ANNE | {"first_name": "Anne Marie"}, "u")
    assert (delete["before"], delete["after"], delete["op"]) == ({"id": 1}, None, "d")
    assert (truncate["before"], truncate["after"], truncate["op"]) == (None, None, "t")
    for event in (create, update, delete, truncate):
        assert event.keys() == {"before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"}
        found = event["source"]
        assert found.keys() == DOCUMENTED_FIELDS
        assert found | DOCUMENTED_SOURCE == found
        assert found["ts_us"] // 1000 == found["ts_ms"]
        assert found["ts_us"] * 1000 == found["ts_ns"]
        assert json.loads(found["sequence"])[1] == str(found["lsn"])
        assert found["ts_us"] <= event["ts_us"]
        assert event["transaction"]["id"].startswith(f"{found['txId']}:")
    lsns = [event["source"]["lsn"] for event in (create, update, delete, truncate)]
    assert lsns == sorted(lsns)
    assert create["source"]["db"] == database.url.rpartition("/")[2]


def test_an_update_of_a_key_is_two_records_with_headers(database: OwnDatabase, run_of: RunOf) -> None:
    database.run(CUSTOMERS, "INSERT INTO customers VALUES (1, 'Anne', 'Kretchmar', 'annek@noanswer.org')")
    run = run_of(postgres_changes(database.url, tables="customers", format="records"))
    run.drain()
    database.run("UPDATE customers SET id = 2")
    deleted, tombstone, created = run.drain()
    assert tombstone["headers"] == deleted["headers"]
    assert (deleted["key"], tombstone["key"], created["key"]) == ('{"id":1}', '{"id":1}', '{"id":2}')
    assert deleted["headers"] == [{"key": "__debezium.newkey", "value": b'{"id":2}'}]
    assert created["headers"] == [{"key": "__debezium.oldkey", "value": b'{"id":1}'}]
    assert json.loads(created["value"])["after"] == ANNE | {"id": 2}


def test_columns_that_change_values_out_of_line_and_several_tables(database: OwnDatabase, run_of: RunOf) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY, big text, n int)",
        "CREATE SCHEMA other",
        "CREATE TABLE other.b (x text, y int, PRIMARY KEY (y, x))",
        "ALTER TABLE a ALTER big SET STORAGE EXTERNAL",
        "CREATE TABLE not_read (id int PRIMARY KEY)",
    )
    run = run_of(postgres_changes(database.url, tables=("a", "other.b")))
    run.start()
    long = "long " * 2000
    database.run(
        f"INSERT INTO a VALUES (1, '{long}', 1)",
        "UPDATE a SET n = 2",
        "ALTER TABLE a ADD COLUMN at timestamp DEFAULT '2018-06-20 15:13:16.945104'",
        "UPDATE a SET n = 3",
        "ALTER TABLE a DROP COLUMN n",
        "INSERT INTO a VALUES (2, NULL)",
        "INSERT INTO not_read VALUES (1)",
        "INSERT INTO other.b VALUES ('k', 5)",
        "ALTER TABLE a REPLICA IDENTITY FULL",
        "DELETE FROM a WHERE id = 1",
        "TRUNCATE a, other.b",
    )
    at = 1529507596945104
    gone = "__debezium_unavailable_value"
    assert shape(run.drain()) == [
        ("c", {"id": 1}, None, {"id": 1, "big": long, "n": 1}),
        ("u", {"id": 1}, {"id": 1}, {"id": 1, "big": gone, "n": 2}),
        ("u", {"id": 1}, {"id": 1}, {"id": 1, "big": gone, "n": 3, "at": at}),
        ("c", {"id": 2}, None, {"id": 2, "big": None, "at": at}),
        ("c", {"x": "k", "y": 5}, None, {"x": "k", "y": 5}),
        ("d", {"id": 1}, {"id": 1, "big": long, "at": at}, None),
        ("t", None, None, None),
        ("t", None, None, None),
    ]


def test_keys_have_the_order_of_their_index_and_are_equal_in_snapshot_and_changes(
    database: OwnDatabase, run_of: RunOf
) -> None:
    """Keys had the order of the table's columns. The snapshot of a table whose replica identity is an index had the
    primary key, and the changes had the columns of the index."""
    database.run(
        "CREATE TABLE a (x text, y int, v int, PRIMARY KEY (y, x))",
        "CREATE TABLE b (id int PRIMARY KEY, y int NOT NULL, x text NOT NULL)",
        "CREATE UNIQUE INDEX b_index ON b (x, y)",
        "ALTER TABLE b REPLICA IDENTITY USING INDEX b_index",
        "INSERT INTO a VALUES ('k', 1, 0)",
        "INSERT INTO b VALUES (7, 1, 'k')",
    )
    run = run_of(postgres_changes(database.url, tables=("a", "b")))
    keys = [event["key"] for event in run.drain()]
    database.run("UPDATE a SET v = 2", "UPDATE b SET id = 8", "DELETE FROM a", "DELETE FROM b")
    found = run.drain()
    assert keys == [event["key"] for event in found[:2]] == ['{"y":1,"x":"k"}', '{"x":"k","y":1}']
    assert [event["before"] for event in found] == ['{"x":"k","y":1}', '{"y":1,"x":"k"}'] * 2


def test_types_of_users_and_the_origin_of_a_transaction(database: OwnDatabase, run_of: RunOf) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN seen_at AS timestamp(3)",
        "CREATE TABLE a (id positive PRIMARY KEY, moods mood[], at seen_at, more positive[])",
        "INSERT INTO a VALUES (1, '{ok,NULL}', '2018-06-20 15:13:16.945', '{5}')",
    )
    run = run_of(postgres_changes(database.url, tables="a"))
    found = run.drain()
    name = f"origin_{database.url.rpartition('/')[2]}"
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute("SELECT pg_replication_origin_create(%s)", [name])
        other.execute("SELECT pg_replication_origin_session_setup(%s)", [name])
        with other.transaction():
            other.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
            other.execute("INSERT INTO a SELECT 2, moods, at, more FROM a")
        other.execute("SELECT pg_replication_origin_session_reset(), pg_replication_origin_drop(%s)", [name])
    found += run.drain()
    expected = {"moods": ["ok", None], "at": 1529507596945, "more": [5]}
    assert [row(event) for event in found] == [{"id": 1, **expected}, {"id": 2, **expected}]
    assert [(event["source"]["origin"], event["source"]["origin_lsn"]) for event in found] == [
        (None, None),
        (name, 0x1234),
    ]


def test_transactions_come_whole_in_the_order_of_their_commits(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, who text)")
    run = run_of(postgres_changes(database.url, tables="a"))
    run.start()
    with psycopg.connect(database.url) as first, psycopg.connect(database.url) as second:
        first.execute("INSERT INTO a VALUES (1, 'first')")
        second.execute("INSERT INTO a VALUES (2, 'second')")
        first.execute("INSERT INTO a VALUES (3, 'first')")
        with second.transaction():
            second.execute("INSERT INTO a VALUES (4, 'second')")
        assert run.drain() == []
        second.commit()
        first.execute("SAVEPOINT here")
        first.execute("INSERT INTO a VALUES (5, 'undone')")
        first.execute("ROLLBACK TO here")
        first.execute("SAVEPOINT there")
        first.execute("INSERT INTO a VALUES (6, 'first')")
        assert [row(event)["id"] for event in run.drain()] == [2, 4]
        first.commit()
    found = run.drain()
    assert [(row(event)["id"], event["transaction"]["total_order"]) for event in found] == [(1, 1), (3, 2), (6, 3)]
    assert len({event["transaction"]["id"] for event in found}) == 1


def test_a_backlog_becomes_several_batches_of_whole_transactions(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    run = run_of(postgres_changes(database.url, tables="a", batch_size=60))
    run.start()
    for index in range(0, 200, 10):
        database.run(f"INSERT INTO a SELECT generate_series({index}, {index + 9})")
    database.run("INSERT INTO a SELECT generate_series(1000, 21000)")
    batches: list[list[Event]] = []
    run.drain(batches.append)
    counts = [len(batch) for batch in batches]
    assert counts[-1] >= 20_001  # one transaction is never divided
    assert sum(counts) == 200 + 20_001
    assert len(counts) >= 4
    assert all(count % 10 == 0 for count in counts[:-1])
    assert [row(event)["id"] for batch in batches for event in batch][:200] == list(range(200))


def test_a_repeated_batch_has_equal_rows_and_the_slot_waits_for_it(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    run = run_of(postgres_changes(database.url, tables="a"))
    assert [event["op"] for event in run.drain()] == ["r"]
    database.run("INSERT INTO a VALUES (2)")
    assert run.plan()
    first = run.read()
    database.run("INSERT INTO a VALUES (3)")
    run.crash()
    confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'tailrace_flow'"
    before = database.rows(confirmed)
    assert run.read() == first
    assert database.rows(confirmed) == before
    run.finish()
    assert [row(event)["id"] for event in run.drain()] == [3]
    assert database.rows(confirmed) != before


def test_a_slot_is_advanced_past_changes_of_other_tables(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE other (t text)")
    run = run_of(postgres_changes(database.url, tables="a"))
    assert run.drain() == []
    database.run("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
    assert run.drain() == []
    behind = "SELECT pg_current_wal_flush_lsn() - confirmed_flush_lsn < 1000000 FROM pg_replication_slots"
    assert database.rows(f"{behind} WHERE slot_name = 'tailrace_flow'") == [(True,)]


def test_the_reader_goes_on_after_the_server_was_killed(run_of: RunOf) -> None:
    with started_server() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE a (id int PRIMARY KEY, t text)")
            connection.execute("INSERT INTO a SELECT g, 'old' FROM generate_series(1, 100) g")
            run = run_of(postgres_changes(server.url, tables="a", chunk_size=10))
            mirror = Mirror()
            mirror.apply(run.step() or [])
            connection.execute("UPDATE a SET t = 'new' WHERE id % 3 = 0")
        server.kill()
        with pytest.raises(
            RetriableConnectorError, match=r"replication slot tailrace_flow of postgresql://.*"
        ) as caught:
            run.drain()
        assert "not-to-be-shown" not in str(caught.value)
        run.crash()
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("DELETE FROM a WHERE id > 90")
            run.drain(mirror.apply)
            expected = connection.execute("SELECT id, t FROM a ORDER BY id").fetchall()
        assert mirror.rows("a", ["id", "t"]) == expected
