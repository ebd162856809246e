"""Snapshots of tables that change between the creation of the slot and the reading of the rows."""

from __future__ import annotations

import psycopg
import pytest
from tests.unit.spark.postgres_changes.changes_run import Mirror, row
from tests.unit.spark.postgres_changes.conftest import OwnDatabase, RunOf

from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes

pytestmark = pytest.mark.slow


def test_rows_that_changed_since_the_slot_was_created_come_with_their_changes_only(
    database: OwnDatabase, run_of: RunOf
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY, t text)", "INSERT INTO a VALUES (1, 'x'), (2, 'x'), (3, 'x')")
    run = run_of(postgres_changes(database.url, tables="a", chunk_size=1))
    run.start()
    with psycopg.connect(database.url) as writer, writer.transaction():
        writer.execute("UPDATE a SET t = 'y' WHERE id = 2")
        with writer.transaction():  # a savepoint, whose rows have an id of their own
            writer.execute("INSERT INTO a VALUES (4, 'y')")
    database.run("DELETE FROM a WHERE id = 3")
    assert [(event["op"], event["key"]) for event in run.drain()] == [
        ("r", '{"id":1}'),
        ("u", '{"id":2}'),
        ("c", '{"id":4}'),
        ("d", '{"id":3}'),
    ]


def test_a_transaction_that_is_open_when_the_slot_is_created_is_waited_for(
    database: OwnDatabase, run_of: RunOf
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    with psycopg.connect(database.url) as reader:
        reader.execute("SELECT * FROM a")  # has no id, because it writes nothing
        run = run_of(postgres_changes(database.url, tables="a"))
        run.start()
    database.run("INSERT INTO a VALUES (1)")
    assert [event["op"] for event in run.drain()] == ["c"]


def test_a_value_out_of_line_is_not_lost_if_its_row_is_updated_before_it_is_read(
    database: OwnDatabase, run_of: RunOf
) -> None:
    """The update comes without the value, so the row must come from the snapshot, though it has changed."""
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY, big text, n int)",
        "ALTER TABLE a ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO a VALUES (1, repeat('long ', 2000), 1), (2, 'short', 1)",
    )
    run = run_of(postgres_changes(database.url, tables="a"))
    run.start()
    database.run("UPDATE a SET n = 2")
    events = run.drain()
    assert [(event["op"], event["key"]) for event in events] == [
        ("r", '{"id":1}'),
        ("u", '{"id":1}'),
        ("u", '{"id":2}'),
    ]
    mirror = Mirror()
    mirror.apply(events)
    assert mirror.rows("a", ["id", "big", "n"]) == [(1, "long " * 2000, 2), (2, "short", 2)]


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE a ALTER n TYPE bigint", "VACUUM FULL a"],
)
def test_rows_that_are_written_anew_by_a_statement_without_changes_are_not_lost(
    database: OwnDatabase, run_of: RunOf, statement: str
) -> None:
    """ALTER TABLE gives all rows the id of its own transaction, and logical decoding tells nothing of them."""
    database.run("CREATE TABLE a (id int PRIMARY KEY, n int)", "INSERT INTO a SELECT g, g FROM generate_series(1, 9) g")
    run = run_of(postgres_changes(database.url, tables="a", chunk_size=2))
    run.start()
    run.step()
    database.run(statement, "UPDATE a SET n = 0 WHERE id = 9")
    mirror = Mirror()
    run.crash()
    run.finished = 0  # the first batch was not finished, so it comes again
    run.drain(mirror.apply)
    assert mirror.rows("a", ["id", "n"]) == [*((number, number) for number in range(1, 9)), (9, 0)]


def test_tables_without_a_key_with_partitions_and_with_a_key_of_several_columns(
    database: OwnDatabase, run_of: RunOf
) -> None:
    database.run(
        "CREATE TABLE bare (n int, t text)",
        "ALTER TABLE bare REPLICA IDENTITY FULL",
        "INSERT INTO bare VALUES (1, 'x'), (2, NULL)",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE part_2 PARTITION OF parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts VALUES (1), (11)",
        """CREATE TABLE pairs (
            a text, b timestamp, c char(5), d numeric, "E'{}" uuid, PRIMARY KEY (c, a, b, d, "E'{}"))""",
        "INSERT INTO pairs SELECT 'it''s ' || g, '2020-01-01'::timestamp + g * interval '1 us', g, g / 3.0, "
        "gen_random_uuid() FROM generate_series(1, 10) g",
    )
    run = run_of(postgres_changes(database.url, tables=("bare", "parts", "pairs"), chunk_size=3))
    events = run.drain()
    assert [row(event) for event in events if event["source"]["table"] == "bare"] == [
        {"n": 1, "t": "x"},
        {"n": 2, "t": None},
    ]
    assert sorted(row(event)["id"] for event in events if event["source"]["table"] == "parts") == [1, 11]
    assert len({event["key"] for event in events if event["source"]["table"] == "pairs"}) == 10
    assert len([event for event in events if event["source"]["table"] == "pairs"]) == 10
    database.run("INSERT INTO parts VALUES (12)", "DELETE FROM bare WHERE n = 2", "UPDATE bare SET t = 'y'")
    assert [(event["op"], event["source"]["table"], event["key"], row(event, "before")) for event in run.drain()] == [
        ("c", "parts", '{"id":12}', None),
        ("d", "bare", None, {"n": 2, "t": None}),
        ("u", "bare", None, {"n": 1, "t": "x"}),
    ]


def test_a_publication_may_have_some_columns_and_rows_only(database: OwnDatabase, run_of: RunOf) -> None:
    database.run(
        "CREATE TABLE a (id int PRIMARY KEY, t text, secret text, twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO a SELECT g, 't', 's' FROM generate_series(1, 4) g",
    )
    if database.connection.info.server_version < 150000:
        pytest.skip("PostgreSQL before 15 publishes whole tables")
    database.run("CREATE PUBLICATION p FOR TABLE a (id, t) WHERE (id > 2)")
    run = run_of(postgres_changes(database.url, publication="p"))
    assert [row(event) for event in run.drain()] == [{"id": 3, "t": "t"}, {"id": 4, "t": "t"}]
    database.run("INSERT INTO a VALUES (5, 't', 's'), (0, 't', 's')")
    assert [row(event) for event in run.drain()] == [{"id": 5, "t": "t"}]
