"""What is wrong with a database, a slot or an argument is said in one line."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.logged import logged
from tests.postgres_server import started_server
from tests.unit.spark.postgres_changes.changes_run import ChangesRun
from tests.unit.spark.postgres_changes.conftest import OwnDatabase, RunOf

from tailrace.cli.main import main
from tailrace.spark.connector.postgres_changes import slot as slot_module
from tailrace.spark.connector.postgres_changes.postgres_changes import PostgresChanges, postgres_changes
from tailrace.spark.connector.postgres_changes.slot_start import start_slot
from tailrace.spark.connector.postgres_changes.start_record import StartRecord, record_path, write_record
from tailrace.spark.connector.postgres_changes.wal_watch import WalWatch
from tailrace.spark.error import (
    ConnectorError,
    DataLossError,
    PipelineError,
    RetriableConnectorError,
    SparkSourceError,
)
from tailrace.spark.pipeline.load import load_pipeline
from tailrace.spark.pipeline.plan import checkpoints_of, plan_of

pytestmark = pytest.mark.slow

URL = "postgresql://anna:secret@localhost:5432/shop"
SLOT = "replication slot tailrace_flow of postgresql://postgres@127.0.0.1:"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "postgres_changes() needs tables=, or the name of a publication that exists"),
        ({"tables": "a", "snapshot": "always"}, "snapshot='always' is not one of initial, never"),
        ({"tables": "a", "format": "avro"}, "format='avro' is not one of columns, records"),
        ({"tables": "a.b.c"}, "'a.b.c' is not the name of a table such as orders or sales.orders"),
        ({"tables": "a", "slot": "My-Slot"}, "slot='My-Slot' is not a name of lower-case letters, digits and _"),
        ({"tables": "a", "batch_size": 0}, "batch_size=0 is not a positive number"),
        ({"tables": "a", "publication": ""}, "publication='' is not a name"),
        ({"tables": "a", "schema": "id int", "format": "records"}, 'schema= is for format="columns"'),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(PipelineError) as caught:
        postgres_changes(URL, **arguments).check_source()
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_source_does_not_show_its_password() -> None:
    source = postgres_changes(URL, tables="a")
    assert str(source) == "changes of postgresql://anna@localhost:5432/shop"
    assert "secret" not in repr(source)


@pytest.mark.parametrize(
    ("statement", "arguments", "expected"),
    [
        ("SELECT", {"tables": "missing"}, "there is no table public.missing in the database"),
        (
            "CREATE TABLE bare (id int)",
            {"tables": "bare"},
            "table public.bare has no primary key and no replica identity, so PostgreSQL would refuse to update it "
            "while its changes are published; give it a primary key, or use ALTER TABLE public.bare REPLICA IDENTITY "
            "FULL",
        ),
        ("SELECT", {"publication": "p"}, "there is no publication p; name the tables with tables=, to create it"),
        (
            "CREATE PUBLICATION p FOR TABLE a WITH (publish = 'insert')",
            {"publication": "p"},
            "publication p does not publish all of insert, update and delete",
        ),
        (
            "CREATE PUBLICATION p FOR TABLE a",
            {"publication": "p", "tables": ("a", "b")},
            "publication p does not have table public.b; it has public.a. "
            "Add it with ALTER PUBLICATION p ADD TABLE public.b",
        ),
    ],
)
def test_wrong_tables(
    database: OwnDatabase, run_of: RunOf, statement: str, arguments: dict[str, Any], expected: str
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", statement)
    with pytest.raises(ConnectorError) as caught:
        run_of(postgres_changes(database.url, **arguments)).start()
    assert str(caught.value) == expected


def test_a_user_without_the_right_to_replicate(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE ROLE anna LOGIN PASSWORD 'secret'")
    try:
        url = database.url.replace("postgres:not-to-be-shown", "anna:secret")
        with pytest.raises(ConnectorError, match="may not replicate; give it the right with ALTER ROLE anna"):
            run_of(postgres_changes(url, tables="a")).start()
    finally:
        database.run("DROP ROLE anna")


def test_a_server_that_does_not_log_for_logical_decoding(tmp_path: Path) -> None:
    with started_server({"wal_level": "replica"}) as server:
        run = ChangesRun(postgres_changes(server.url, tables="a"), tmp_path)
        with pytest.raises(ConnectorError, match="has wal_level = replica, and changes need logical: set it in"):
            run.start()
        server.stop()
        with pytest.raises(RetriableConnectorError, match="cannot be reached"):
            run.start()


def test_a_slot_of_another_flow_is_not_taken(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE PUBLICATION tailrace_flow FOR TABLE a")
    database.run("SELECT pg_create_logical_replication_slot('tailrace_flow', 'pgoutput')")
    database.run("INSERT INTO a VALUES (1)")
    with pytest.raises(ConnectorError, match=r"exists, and this flow has not created it\. If the flow was reset, drop"):
        run_of(postgres_changes(database.url, tables="a")).start()
    run = run_of(postgres_changes(database.url, tables="a", snapshot="never"))
    assert [event["op"] for event in run.drain()] == ["c"]


def test_a_crash_while_the_slot_is_created_leaves_nothing_to_repair(
    database: OwnDatabase, run_of: RunOf, tmp_path: Path
) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    write_record(record_path(tmp_path, "tailrace_flow"), StartRecord())
    database.run("SELECT pg_create_logical_replication_slot('tailrace_flow', 'pgoutput')", "INSERT INTO a VALUES (2)")
    assert [event["op"] for event in run_of(postgres_changes(database.url, tables="a")).drain()] == ["r", "r"]


def test_a_slot_that_is_gone_or_was_advanced_or_is_ahead_of_the_server(database: OwnDatabase, run_of: RunOf) -> None:
    database.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    run = run_of(postgres_changes(database.url, tables="a"))
    run.drain()
    database.run(
        "INSERT INTO a VALUES (2)",
        "SELECT pg_replication_slot_advance('tailrace_flow', pg_current_wal_flush_lsn())",
        "INSERT INTO a VALUES (3)",
    )
    with pytest.raises(DataLossError, match=f"{SLOT}.* was advanced to .* by another program, and the flow is at"):
        run.drain()
    run.planned.append({"lsn": "FFFF/0", "planned_us": 0})
    run.finish()
    assert run.reader is not None
    with pytest.raises(DataLossError, match=r"the log of .* ends at .*: it is another server, or was restored from a"):
        run.reader._find_end(0xFFFF << 32)
    run.crash()
    database.run("SELECT pg_drop_replication_slot('tailrace_flow')")
    with pytest.raises(ConnectorError, match=f"{SLOT}.* is missing, and with it the changes"):
        run.start()


@pytest.mark.slow
def test_a_slot_that_lost_its_log(tmp_path: Path) -> None:
    limits = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with started_server(limits) as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        run = ChangesRun(postgres_changes(server.url, tables="a"), tmp_path)
        assert run.drain() == []
        for _ in range(4):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("INSERT INTO a SELECT coalesce(max(id), 0) + 1 FROM a")
        connection.execute("CHECKPOINT")
        with pytest.raises(DataLossError, match=r"is lost: the server has removed log files that it needs"):
            run.drain()
        run.crash()


def test_a_slot_that_another_process_uses(
    database: OwnDatabase, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_module, "_IN_USE_WAIT_S", 0.2)
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    run = run_of(postgres_changes(database.url, tables="a"))
    run.drain()
    database.run("INSERT INTO a VALUES (1)")
    with closing(psycopg.connect(f"{database.url}?replication=database", autocommit=True)) as other:
        other.pgconn.exec_(
            b"START_REPLICATION SLOT tailrace_flow LOGICAL 0/0 (proto_version '1', publication_names 'tailrace_flow')"
        )
        with pytest.raises(RetriableConnectorError, match=f"{SLOT}.* is used by another process: .*active for PID"):
            run.drain()
    monkeypatch.undo()
    assert [event["op"] for event in run.drain()] == ["c"]


def test_a_damaged_record_of_the_start(database: OwnDatabase, run_of: RunOf, tmp_path: Path) -> None:
    record_path(tmp_path, "tailrace_flow").write_text('{"lsn": 7}')
    with pytest.raises(SparkSourceError, match=r"postgres_changes_tailrace_flow.json cannot be read; reset the flow"):
        run_of(postgres_changes(database.url, tables="a")).start()


def test_a_slot_that_retains_much_of_the_log_is_warned_of_at_each_doubling(caplog: pytest.LogCaptureFixture) -> None:
    watch = WalWatch("replication slot s", 1 << 20)
    with caplog.at_level(logging.WARNING):
        for megabytes in (0, 1, 2, 3, 4, 7, 9, 1, 0):
            watch.look(megabytes << 20)
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [2, 4, 9, 1]
    assert "replication slot s retains 2 MB of the server's log, above retained_wal_mb=1" in logged(caplog)


RESET = """\
name: flow
source: {connector: postgres_changes, url: URL, tables: a}
sink: {connector: lines, path: out.txt}
"""


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_reset_drops_the_slot_or_says_that_it_stays(
    database: OwnDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_dropped: bool
) -> None:
    """The slot outlived the checkpoint without a word, and kept the log of the server for ever."""
    database.run("CREATE TABLE a (id int PRIMARY KEY)")
    file = tmp_path / "pipe.yaml"
    file.write_text(RESET.replace("URL", database.url))
    (flow,) = load_pipeline(file).flows
    plan = plan_of(flow, {"bootstrap.servers": "localhost:1"}, checkpoints_of(file), tmp_path)
    (source,) = flow.sources
    assert isinstance(source, PostgresChanges)
    assert source.drop_slot(plan.place) is None  # before the first start
    slot = source._slot(plan.place)
    start_slot(slot, source.tables, record_path(plan.checkpoint, slot.name), has_snapshot=True)
    names = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert database.rows(names) == [("tailrace_flow",)]

    assert main(["pipeline", "reset", str(file), "--yes", *(["--drop-slots"] if is_dropped else [])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "tailrace: flow flow starts anew at the next run" in lines
    if is_dropped:
        assert lines[0].startswith(f"tailrace: dropped {SLOT}")
        assert (database.rows(names), len(lines)) == ([], 2)
        plan.connect()
    else:
        assert lines[1] == (
            "tailrace: replication slot tailrace_flow of flow flow keeps the log of its server; drop it with "
            "SELECT pg_drop_replication_slot('tailrace_flow')"
        )
        assert database.rows(names) == [("tailrace_flow",)]
