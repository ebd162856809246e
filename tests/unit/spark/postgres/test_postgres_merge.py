"""The copy of rows to a staging table and their merge: refused rows, repeated tasks, an emptied staging table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from tests.postgres_server import PostgresServer

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tailrace.spark.connector.error_policy import ErrorPolicy, OnError
from tailrace.spark.connector.postgres import staging
from tailrace.spark.connector.postgres.connection import parse_database
from tailrace.spark.connector.postgres.merge import Merge, Note
from tailrace.spark.connector.postgres.table import BATCHES, TableName, set_up
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.error import ConnectorError, RetriableConnectorError, WriteError

pytestmark = pytest.mark.slow

SKIP = Rejects("orders", ErrorPolicy(OnError.SKIP))
QUERY_ID = "7d4b1c1e-0000-4000-8000-000000000000"
COLUMNS = ("id", "cents", "code")


class Batch:
    """A batch of a flow that tasks have copied."""

    def __init__(self, server: PostgresServer, connection: psycopg.Connection[Any], table: TableName) -> None:
        self.server = server
        self.connection = connection
        self.table = table
        self.staging = staging.new_name(QUERY_ID)
        staging.create(connection, table, self.staging, COLUMNS)

    def copy(self, rows: list[tuple[Any, ...]], rejects: Rejects = SKIP) -> dict[str, Any]:
        """Copy rows as a task would; returns its report."""
        task = staging.CopyTask(parse_database("test", self.server.url), self.table, self.staging, rejects)
        names = [*COLUMNS, staging.DELETE]
        columns = [pa.array(values) for values in zip(*((*row, False) for row in rows), strict=True)]
        (report,) = task(iter([pa.RecordBatch.from_arrays(columns, names=names)]))
        return {name: values[0] for name, values in report.to_pydict().items()}

    def merge(self, row_count: int, rejects: Rejects = SKIP, key: tuple[str, ...] = ("id",)) -> Counter[str]:
        with self.connection.transaction():
            merge = Merge(self.table, self.staging, COLUMNS, key, False, [0], rejects)
            return merge.run(self.connection, row_count)

    def ids(self) -> list[int]:
        found = self.connection.execute(f"SELECT id FROM {self.table} ORDER BY id")
        return [number for (number,) in found]


@pytest.fixture
def batch(postgres_server: PostgresServer, connection: psycopg.Connection[Any], name: str) -> Batch:
    columns = "id int PRIMARY KEY, cents int CONSTRAINT positive CHECK (cents > 0), code varchar(3)"
    connection.execute(f"CREATE TABLE {name} ({columns})")
    return Batch(postgres_server, connection, TableName(name))


def test_refused_rows_are_left_out_and_counted(batch: Batch) -> None:
    too_long = {7, 8, 70}
    negative = {0, 31, 32, 99}
    rows = [(n, -1 if n in negative else 1, "abcd" if n in too_long else "abc") for n in range(100)]
    report = batch.copy(rows)
    assert report["row_count"] == 97
    assert "too long" in report["refused"]
    refused = batch.merge(97)
    assert list(refused.values()) == [4], "the reason is the same for all rows"
    assert "positive" in next(iter(refused))
    assert batch.ids() == sorted(set(range(100)) - too_long - negative)


@pytest.mark.parametrize("error", ["", " USING ERRCODE = '44000'"])
def test_a_row_that_a_trigger_refuses_is_left_out(batch: Batch, error: str) -> None:
    """It stopped the flow, whatever errors= said."""
    function = f"refuse_{batch.table}"
    body = f"BEGIN IF NEW.id % 40 = 7 THEN RAISE 'no sevens'{error}; END IF; RETURN NEW; END"
    batch.connection.execute(f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    trigger = f"CREATE TRIGGER refuse BEFORE INSERT ON {batch.table} FOR EACH ROW EXECUTE FUNCTION {function}()"
    batch.connection.execute(trigger)
    batch.copy([(n, 1, "abc") for n in range(100)])
    assert batch.merge(100) == {f"table {batch.table} refuses a row: no sevens": 3}
    assert batch.ids() == [n for n in range(100) if n % 40 != 7]


def test_a_refused_row_stops_a_flow_that_does_not_say_otherwise(batch: Batch) -> None:
    stop = Rejects("orders")
    with pytest.raises(WriteError, match=r"too long.*\"id\": 2"):
        batch.copy([(1, 1, "abc"), (2, 1, "abcd")], stop)
    with pytest.raises(WriteError, match=r"positive.*\"id\": 4"):
        batch.merge(batch.copy([(3, 1, "abc"), (4, -1, "abc")], stop)["row_count"] + 1, stop)
    assert batch.ids() == []


def test_rows_without_a_key_are_refused(batch: Batch) -> None:
    """Of the rows of a batch whose key was null, all but the last were lost in silence."""
    batch.connection.execute(f"CREATE UNIQUE INDEX ON {batch.table} (code)")
    batch.copy([(1, 1, None), (2, 1, None), (3, 1, "abc")])
    refused = batch.merge(3, key=("code",))
    assert refused == {f"table {batch.table} refuses a row: a column of the key is null": 2}
    assert batch.ids() == [3]


def test_a_staging_table_that_a_crash_has_emptied_is_noticed(batch: Batch) -> None:
    report = batch.copy([(1, 1, "abc"), (2, 1, None)])
    batch.connection.execute(f"TRUNCATE {batch.staging}")
    with pytest.raises(RetriableConnectorError, match="copied 2 rows, and 0 are left"):
        batch.merge(report["row_count"])


def test_rows_of_a_repeated_task_are_not_taken(batch: Batch) -> None:
    batch.copy([(1, 1, "abc")])
    batch.connection.execute(f"UPDATE {batch.staging} SET {staging.TASK} = 5")
    assert batch.copy([(1, 2, "abc")])["row_count"] == 1
    batch.merge(1, key=())
    assert batch.connection.execute(f"SELECT cents FROM {batch.table}").fetchall() == [(2,)]


def test_a_batch_is_noted_once(batch: Batch) -> None:
    from pyspark.sql.types import IntegerType, StructType

    schema = StructType().add("id", IntegerType())
    set_up(batch.connection, batch.table, schema, (), evolve=True, with_batches=True)
    flow = f"flow of {batch.table}"
    first = Note(flow, QUERY_ID, 3)
    assert not first.is_written(batch.connection, batch.table)
    assert first.write(batch.connection, batch.table)
    assert first.is_written(batch.connection, batch.table)
    assert not first.write(batch.connection, batch.table)
    assert not Note(flow, QUERY_ID, 2).write(batch.connection, batch.table)
    with pytest.raises(ConnectorError, match=f"goes on with batch 2, and table {batch.table} has batch 3"):
        Note(flow, QUERY_ID, 2).is_written(batch.connection, batch.table)
    assert Note(flow, QUERY_ID, 4).write(batch.connection, batch.table)
    assert Note(flow, "another", 0).write(batch.connection, batch.table)
    found = batch.connection.execute(f"SELECT count(*) FROM {BATCHES} WHERE flow = %s", [flow]).fetchone()
    assert found == (2,)


def test_left_over_staging_tables_are_dropped_unless_they_are_young_and_of_another_flow(batch: Batch) -> None:
    old, young = f"tailrace_staging_{'0' * 20}_1000_ab", staging.new_name("1" * 32)
    for name in (old, young):
        batch.connection.execute(f"CREATE TABLE {name} ()")
    staging.drop_left_overs(batch.connection, batch.table, QUERY_ID)
    found = batch.connection.execute(
        "SELECT relname::text FROM pg_class WHERE relname = ANY(%s)", [[old, young, batch.staging]]
    ).fetchall()
    assert found == [(young,)]
    batch.connection.execute(f"DROP TABLE {young}")
