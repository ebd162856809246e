"""Batches of a stream over a table: each committed row is in one of them, however late its transaction commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tailrace.spark.connector.postgres import seen
from tailrace.spark.connector.postgres.postgres import postgres
from tailrace.spark.connector.postgres.stream import PostgresStreamReader
from tailrace.spark.error import ConnectorError, RetriableConnectorError

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]


class Stream:
    """A stream over a table, as Spark would run it."""

    def __init__(self, url: str, **arguments: Any) -> None:
        source = postgres(url, **arguments)
        source.check_source()
        self._source = source
        self._reader = self._new_reader()
        self.position = self._reader.initialOffset()
        self.chunk_count = 0

    def _new_reader(self) -> PostgresStreamReader:
        reader = PostgresStreamReader(self._source._describe_read())
        reader.prepareForTriggerAvailableNow()
        return reader

    def plan(self) -> dict[str, Any]:
        """Return the end of the next batch."""
        self._reader._is_started = False  # each batch here is one of AvailableNow
        return _stored(self._reader.latestOffset(self.position, ReadAllAvailable()))

    def read(self, end: dict[str, Any]) -> Rows:
        """Return the rows of a batch, without noting that it was read."""
        if end == self.position:
            return []
        chunks = self._reader.partitions(self.position, end)
        self.chunk_count = len(chunks)
        return [row for chunk in chunks for batch in self._reader.read(chunk) for row in batch.to_pylist()]

    def batch(self) -> Rows:
        """Read the next batch."""
        end = self.plan()
        rows = self.read(end)
        self._reader.commit(end)
        self.position = end
        return rows

    def restart(self) -> None:
        """Go on in another process, from the checkpoint."""
        self._reader.stop()
        self._reader = self._new_reader()


def _stored(position: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(position))
    return found


@pytest.fixture
def stream(postgres_server: PostgresServer) -> Iterator[Callable[..., Stream]]:
    """Makes streams, and ends them."""
    streams: list[Stream] = []

    def create(**arguments: Any) -> Stream:
        streams.append(Stream(postgres_server.url, **arguments))
        return streams[-1]

    yield create
    for each in streams:
        each._reader.stop()


def ids(rows: Rows) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.fixture
def events(connection: psycopg.Connection[Any], name: str) -> str:
    connection.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), note text)")
    return name


def test_a_transaction_that_commits_after_a_batch_is_in_the_next_one(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str, postgres_server: PostgresServer
) -> None:
    connection.execute(f"INSERT INTO {events} VALUES (1)")
    with psycopg.connect(postgres_server.url) as late, psycopg.connect(postgres_server.url) as nested:
        late.execute(f"INSERT INTO {events} VALUES (2)")
        nested.execute("SELECT 1")
        with nested.transaction():  # a savepoint, whose transaction id no snapshot lists
            nested.execute(f"INSERT INTO {events} VALUES (3)")
        connection.execute(f"INSERT INTO {events} VALUES (4)")
        reading = stream(table=events, cursor="at")
        assert ids(reading.batch()) == [1, 4]
        connection.execute(f"INSERT INTO {events} VALUES (5)")
        assert ids(reading.batch()) == [5]
        late.commit()
        assert ids(reading.batch()) == [2]
        nested.commit()
    assert ids(reading.batch()) == [3]
    assert reading.batch() == []


def test_a_row_behind_the_look_back_is_not_looked_for(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    reading = stream(table=events, cursor="at", look_back="10 minutes")
    assert reading.batch() == []
    connection.execute(f"INSERT INTO {events} VALUES (1)")
    assert ids(reading.batch()) == [1]
    connection.execute(f"INSERT INTO {events} VALUES (2, now() - interval '9 minutes'), (3, now() - interval '1 hour')")
    assert ids(reading.batch()) == [2]


def test_a_row_of_the_future_does_not_hide_later_rows(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    """The bound of the search followed the newest cursor, so no later row was read: until 2099, in this case."""
    reading = stream(table=events, cursor="at")
    connection.execute(f"INSERT INTO {events} VALUES (1, '2099-01-01')")
    assert ids(reading.batch()) == [1]
    connection.execute(f"INSERT INTO {events} VALUES (2, now()), (3, now() - interval '2 hours')")
    assert ids(reading.batch()) == [2]
    reading.restart()
    connection.execute(f"INSERT INTO {events} VALUES (4)")
    assert ids(reading.batch()) == [4]


def test_updated_rows_come_again_and_frozen_ones_do_not(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    connection.execute(f"INSERT INTO {events} SELECT n FROM generate_series(1, 5) n")
    reading = stream(table=events, cursor="id", look_back=100)
    assert ids(reading.batch()) == [1, 2, 3, 4, 5]
    connection.execute(f"UPDATE {events} SET note = 'new' WHERE id = 2")
    connection.execute(f"VACUUM (FREEZE) {events}")
    connection.execute(f"VACUUM FULL {events}")
    assert [(row["id"], row["note"]) for row in reading.batch()] == [(2, "new")]


def test_a_batch_that_is_read_again_has_the_rows_of_its_time(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    reading = stream(table=events, cursor="at", look_back="1 second")
    reading.batch()
    connection.execute(f"INSERT INTO {events} VALUES (1, now()), (2, now() - interval '1 day')")
    end = reading.plan()
    assert ids(reading.read(end)) == [1, 2]
    reading.restart()
    connection.execute(f"INSERT INTO {events} VALUES (3)")
    connection.execute(f"UPDATE {events} SET note = 'new' WHERE id = 2")
    assert ids(reading.read(end)) == [1], "the row that was updated is of a later time"
    reading.position = end
    assert ids(reading.batch()) == [2, 3], "and is in the next batch, although its cursor is old"


@pytest.mark.slow
def test_a_batch_is_of_one_snapshot_even_if_rows_move_meanwhile(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    connection.execute(f"INSERT INTO {events} (id, note) SELECT n, repeat('x', 500) FROM generate_series(1, 1000) n")
    connection.execute(f"ANALYZE {events}")
    for arguments in ({}, {"key": "id"}):
        reading = stream(table=events, chunk_rows=100, **arguments)
        end = reading.plan()
        chunks = reading._reader.partitions(reading.position, end)
        assert len(chunks) >= 10
        rows = []
        for chunk in chunks:
            connection.execute(f"UPDATE {events} SET note = note || 'y'")  # every row moves to another page
            rows += [row for batch in reading._reader.read(chunk) for row in batch.to_pylist()]
        assert ids(rows) == list(range(1, 1001))
        assert len({row["note"] for row in rows}) == 1
        reading._reader.stop()


def test_a_stream_without_a_cursor_ends_with_its_first_batch(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    connection.execute(f"INSERT INTO {events} SELECT n FROM generate_series(1, 30) n")
    reading = stream(query=f"SELECT id * 2 AS id FROM {events} WHERE id <= 20", key="id", chunk_rows=4)
    assert ids(reading.batch()) == list(range(2, 41, 2))
    assert reading.chunk_count == 5
    assert reading.batch() == []


def test_too_long_an_open_transaction_delays_later_rows(
    stream: Callable[..., Stream],
    connection: psycopg.Connection[Any],
    events: str,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen, "OPEN_RANGE_MAX", 5)
    reading = stream(table=events, cursor="at")
    reading.batch()
    with psycopg.connect(postgres_server.url) as late:
        late.execute(f"INSERT INTO {events} VALUES (1)")
        for number in range(2, 12):
            connection.execute(f"INSERT INTO {events} VALUES ({number})")
        assert reading.batch() == []
    assert ids(reading.batch()) == list(range(1, 12))


def test_a_column_that_vanished_or_changed_is_named(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    connection.execute(f"INSERT INTO {events} VALUES (1)")
    reading = stream(table=events, cursor="at")
    reading.batch()
    connection.execute(f"ALTER TABLE {events} ALTER note TYPE integer USING 7")
    connection.execute(f"INSERT INTO {events} VALUES (2)")
    with pytest.raises(ConnectorError, match="column note had the type text, and now has int4"):
        reading.batch()
    connection.execute(f"ALTER TABLE {events} DROP note")
    with pytest.raises(ConnectorError, match="column note has vanished"):
        reading.batch()


def test_a_value_that_spark_cannot_hold_is_an_error(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    connection.execute(f"INSERT INTO {events} VALUES (1, 'infinity')")
    with pytest.raises(ConnectorError, match=r"cannot hold a value: .*infinity.*#1 is at"):
        stream(table=events).batch()


def test_tasks_without_the_snapshot_of_their_driver_can_try_again(
    stream: Callable[..., Stream], connection: psycopg.Connection[Any], events: str
) -> None:
    reading = stream(table=events)
    chunk = reading._reader.partitions(reading.position, reading.plan())[0]
    reading._reader.stop()
    with pytest.raises(RetriableConnectorError, match="the snapshot of the batch is gone"):
        list(reading._reader.read(chunk))


@pytest.mark.parametrize(
    ("old", "new", "next_id", "expected"),
    [
        # Ids above that of the snapshot are of rows before the last wraparound, and the first batch has all rows.
        (seen.Seen(0), seen.Seen(110), 110, {100, 105, (1 << 32) - 1}),
        (seen.Seen(101, (100,)), seen.Seen(106, (103,)), 110, {100, 105}),
        # The epoch of the snapshot is 2, and ids above its low half are of epoch 1.
        (seen.Seen((1 << 33) - 5), seen.Seen((1 << 33) + 200), (1 << 33) + 200, {100, 105, (1 << 32) - 1}),
    ],
)
def test_rows_between_positions(
    connection: psycopg.Connection[Any], old: seen.Seen, new: seen.Seen, next_id: int, expected: set[int]
) -> None:
    rows = "(VALUES ('100'), ('105'), ('4294967295'), ('2')) AS t (xmin)"
    found = connection.execute(f"SELECT xmin::bigint FROM {rows} WHERE {seen.new_rows(old, new, next_id)}")
    assert {number for (number,) in found} - {2} == expected
