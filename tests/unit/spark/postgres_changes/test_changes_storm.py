"""A storm of statements, while a snapshot is read and readers crash: the changes give an equal table."""

from __future__ import annotations

import random
import threading
from typing import Any

import psycopg
import pytest
from tests.unit.spark.postgres_changes.changes_run import Event, Mirror, row
from tests.unit.spark.postgres_changes.conftest import OwnDatabase, RunOf

from tailrace.spark.connector.postgres_changes.postgres_changes import postgres_changes

pytestmark = pytest.mark.slow

KEYS = 60
COLUMNS = ["id", "v", "t", "big"]


class Writer(threading.Thread):
    """A session that runs random statements until it is told to stop."""

    def __init__(
        self, url: str, seed: int, *, with_schema_changes: bool = False, with_wide_values: bool = True
    ) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._random = random.Random(seed)
        self._with_schema_changes = with_schema_changes
        self._with_wide_values = with_wide_values
        self._ended = threading.Event()
        self.error: BaseException | None = None
        self.count = 0

    def run(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while not self._ended.is_set():
                    self._transaction(connection)
                    self.count += 1
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ended.set()
        self.join(60)
        assert self.error is None, self.error

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        chance = self._random
        connection.execute("BEGIN")
        connection.execute("SET LOCAL deadlock_timeout = '20ms'")
        try:
            for _ in range(chance.randint(1, 4)):
                statement = self._statement(connection)
                if chance.random() < 0.3:
                    connection.execute("SAVEPOINT s")
                    connection.execute(statement.encode())
                    connection.execute(chance.choice((b"ROLLBACK TO s", b"RELEASE s")))
                else:
                    connection.execute(statement.encode())
            connection.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
        except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
            connection.execute("ROLLBACK")

    def _statement(self, connection: psycopg.Connection[Any]) -> str:
        chance = self._random
        key, other = chance.randint(1, KEYS), chance.randint(1, KEYS)
        kind = chance.random()
        if kind < 0.35:
            big = f"'{chance.choice('xyz') * 5000}'" if self._with_wide_values and chance.random() < 0.3 else "'small'"
            return (
                f"INSERT INTO a (id, v, t, big) VALUES ({key}, nextval('versions'), 't{key}', {big}) "
                "ON CONFLICT (id) DO UPDATE SET v = nextval('versions'), t = a.t || 'i'"
            )
        if kind < 0.7:
            return f"UPDATE a SET v = nextval('versions'), t = 'u' WHERE id BETWEEN {key} AND {key + 2}"
        if kind < 0.8:
            return f"UPDATE a SET id = {other}, v = nextval('versions'), big = 'moved' WHERE id = {key}"
        if kind < 0.97 or not self._with_schema_changes:
            return f"DELETE FROM a WHERE id = {key}"
        return chance.choice(
            (
                "TRUNCATE a",
                "ALTER TABLE a ADD COLUMN IF NOT EXISTS extra int",
                "ALTER TABLE a DROP COLUMN IF EXISTS extra",
                "ALTER TABLE a ALTER t TYPE varchar(1000)",
                "ALTER TABLE a ALTER v TYPE numeric",  # writes all rows anew
                "ALTER TABLE a ALTER v TYPE bigint",
            )
        )


def make_table(database: OwnDatabase, count: int = KEYS) -> None:
    database.run(
        "CREATE SEQUENCE versions",
        "CREATE TABLE a (id int PRIMARY KEY, v bigint, t text, big text)",
        "ALTER TABLE a ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO a SELECT g, nextval('versions'), 'first', repeat('b', 3000 * (g % 2)) "
        f"FROM generate_series(1, {count}) g",
    )


def expected(database: OwnDatabase) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, v::bigint, t::text, big FROM a ORDER BY id")


def found(mirror: Mirror) -> list[tuple[Any, ...]]:
    return [(key, int(version), *rest) for key, version, *rest in mirror.rows("a", COLUMNS)]


@pytest.mark.parametrize("seed", [1])
def test_changes_of_a_storm_give_an_equal_table(database: OwnDatabase, run_of: RunOf, seed: int) -> None:
    storm(database, run_of, seed, writer_count=2, transaction_count=400)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_changes_of_many_storms_give_an_equal_table(database: OwnDatabase, run_of: RunOf, seed: int) -> None:
    storm(database, run_of, seed, writer_count=4, transaction_count=4000)


def storm(database: OwnDatabase, run_of: RunOf, seed: int, *, writer_count: int, transaction_count: int) -> None:
    """Run writers while a reader that crashes reads all their changes, and compare the tables."""
    make_table(database)
    chance = random.Random(seed)
    writers = [
        Writer(database.url, seed * 100 + index, with_schema_changes=index == 0) for index in range(writer_count)
    ]
    run = run_of(postgres_changes(database.url, tables="a", chunk_size=7, batch_size=200))
    mirror = Mirror()
    for writer in writers:
        writer.start()
    try:
        while sum(writer.count for writer in writers) < transaction_count and all(w.is_alive() for w in writers):
            if not run.plan():
                continue
            if chance.random() < 0.3:
                run.read()
                run.crash()  # before the batch is finished, so it comes again
                continue
            mirror.apply(run.read())
            run.finish()
            if chance.random() < 0.2:
                run.crash()
    finally:
        for writer in writers:
            writer.end()
    run.drain(mirror.apply)
    assert found(mirror) == expected(database)


def test_no_row_of_the_snapshot_is_older_than_a_change_before_it(database: OwnDatabase, run_of: RunOf) -> None:
    """Each change of a row has a greater version, so versions of a key never go back in the stream of events."""
    make_table(database, 400)
    # Small values only: rows that may have values out of line are kept though they have changed.
    database.run("UPDATE a SET big = 'small'", "VACUUM FULL a")
    writers = [Writer(database.url, index, with_wide_values=False) for index in range(2)]
    run = run_of(postgres_changes(database.url, tables="a", chunk_size=20))
    run.start()
    events: list[Event] = []
    for writer in writers:
        writer.start()
    try:
        while (rows := run.step()) is not None:
            events += rows
            if run.planned[-1].get("chunks") is None:
                break
            run.crash()
    finally:
        for writer in writers:
            writer.end()
    events += run.drain()
    snapshot = [event for event in events if event["op"] == "r"]
    assert 0 < len(snapshot) <= 400
    assert [event["op"] for event in events[: len(snapshot)]] == ["r"] * len(snapshot)
    newest: dict[str, int] = {}
    for event in events:
        if event["op"] != "d":
            assert row(event)["v"] > newest.get(event["key"], 0)
            newest[event["key"]] = row(event)["v"]
    mirror = Mirror()
    mirror.apply(events)
    assert found(mirror) == expected(database)
