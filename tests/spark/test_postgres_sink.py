"""Tables of PostgreSQL as sinks: upserts, deletions, replayed batches, evolution, refused rows."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.postgres_server import PASSWORD, PostgresServer
from tests.spark.conftest import require_spark

from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart
from tailrace.spark.connector.postgres.postgres import Postgres, postgres
from tailrace.spark.connector.replay import read_query_id
from tailrace.spark.error import ConnectorError, PipelineError, RetriableConnectorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

require_spark()


@pytest.fixture
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def place(tmp_path: Path) -> FlowPlace:
    """A flow with a checkpoint as Spark makes it."""
    (tmp_path / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return FlowPlace("orders", tmp_path, tmp_path)


@pytest.fixture
def write(spark: SparkSession, place: FlowPlace) -> Callable[..., None]:
    """Writes rows as a batch, after the start of a flow."""

    def write_rows(sink: Postgres, rows: Any, schema: str, batch_id: int = 0, at: FlowPlace = place) -> None:
        frame = rows if schema == "" else spark.createDataFrame(rows, schema)
        sink.check_sink()
        sink.connect_sink(at)
        start = FlowStart(spark, at)
        prepared = sink.prepare(frame, start)
        start.settle()
        sink.write_batch(prepared, batch_id, at)

    return write_rows


def rows_of(connection: psycopg.Connection[Any], name: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()


def left_overs(connection: psycopg.Connection[Any], place: FlowPlace) -> list[Any]:
    """Return the staging tables of a flow; other tests leave some of theirs behind."""
    query_id = read_query_id(place.checkpoint).replace("-", "")[:20]
    query = "SELECT relname FROM pg_class WHERE relname LIKE %s"
    return connection.execute(query, [f"tailrace_staging_{query_id}%"]).fetchall()


def test_upserts_deletions_and_replays(
    write: Callable[..., None],
    spark: SparkSession,
    place: FlowPlace,
    connection: psycopg.Connection[Any],
    name: str,
    postgres_server: PostgresServer,
) -> None:
    sink = postgres(postgres_server.url, table=name, key="id", delete_when="op = 'd'", exclude="op")
    schema = "id bigint, note string, op string"
    write(sink, [(1, "a", "c"), (2, "b", "c"), (2, "the last one wins", "u"), (3, "c", "c")], schema)
    assert rows_of(connection, name) == [(1, "a"), (2, "the last one wins"), (3, "c")]
    change = [(1, None, "d"), (3, "gone and back", "d"), (3, "back", "c"), (4, "d", None)]
    # Left over by a driver that was killed.
    query = place.checkpoint.joinpath("metadata").read_text()
    prefix = json.loads(query)["id"].replace("-", "")[:20]
    connection.execute(f"CREATE TABLE tailrace_staging_{prefix}_1_ab ()")
    write(sink, change, schema, 1)
    expected = [(2, "the last one wins"), (3, "back"), (4, "d")]
    assert rows_of(connection, name) == expected
    connection.execute(f"DELETE FROM {name}")
    write(sink, change, schema, 1)
    assert rows_of(connection, name) == [], "the batch is known as written"
    at_least = FlowPlace(place.flow, place.checkpoint, place.output, delivery=Delivery.AT_LEAST_ONCE)
    write(sink, change, schema, 1, at=at_least)
    assert rows_of(connection, name) == [(3, "back"), (4, "d")], "without a note it is written again"
    assert left_overs(connection, place) == []
    # A reset flow has another query, whose batches are counted from 0.
    place.checkpoint.joinpath("metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    write(sink, [(9, "new", "c")], schema, 0)
    assert rows_of(connection, name)[-1] == (9, "new")


def test_new_columns_are_added_and_types_that_do_not_fit_are_refused(
    write: Callable[..., None], connection: psycopg.Connection[Any], name: str, postgres_server: PostgresServer
) -> None:
    sink = postgres(postgres_server.url, table=name)
    write(sink, [(1,)], "id int")
    write(sink, [(2, "x", [1, 2])], "id int, note string, parts array<bigint>", 1)
    write(sink, [("y",)], "note string", 2)
    assert connection.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() == [
        (1, None, None),
        (2, "x", [1, 2]),
        (None, "y", None),
    ]
    with pytest.raises(PipelineError, match=f"column id of table {name} has the type int4, and the rows have bigint"):
        write(sink, [(3,)], "id bigint", 3)
    fixed = postgres(postgres_server.url, table=name, evolve=False)
    with pytest.raises(PipelineError, match=f"table {name} has no column other, and evolve=False adds none"):
        write(fixed, [(3, 4)], "id int, other int", 3)
    with pytest.raises(PipelineError, match="does not exist, and create= is False; create the table"):
        write(postgres(postgres_server.url, table=f"{name}_missing", create=False), [(3,)], "id int", 3)
    with pytest.raises(ConnectorError, match=r"no primary key or unique index on \(id\)"):
        write(postgres(postgres_server.url, table=name, key="id"), [(3,)], "id int", 3)


def test_a_refused_row_is_named_with_its_values_and_its_constraint(
    write: Callable[..., None], connection: psycopg.Connection[Any], name: str, postgres_server: PostgresServer
) -> None:
    connection.execute(
        f"CREATE TABLE {name} (id int, cents int CONSTRAINT positive CHECK (cents > 0), code varchar(3))"
    )
    sink = postgres(postgres_server.url, table=name)
    schema = "id int, cents int, code string"
    good = [(number, 1, "abc") for number in range(20)]
    for bad, words in (
        ((77, -5, "abc"), ('constraint "positive"', '"id": 77', '"cents": -5')),
        ((78, 5, "abcd"), ("too long for type character varying", '"code": "abcd"')),
        ((79, 5, "a\0"), ("invalid byte sequence", '"id": 79')),
    ):
        with pytest.raises(Exception, match=words[0]) as caught:  # of a task or of the driver
            write(sink, [*good, bad, *good], schema)
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert PASSWORD not in str(caught.value)
    assert rows_of(connection, name) == [], "a batch is written whole or not at all"


def test_a_database_that_is_away_is_worth_a_retry_and_a_wrong_password_is_not(
    write: Callable[..., None], name: str, postgres_server: PostgresServer, place: FlowPlace
) -> None:
    away = postgres(postgres_server.url.replace(str(postgres_server.port), "1"), table=name)
    with pytest.raises(RetriableConnectorError, match="cannot be reached") as caught:
        away.connect_sink(place)
    wrong = postgres(postgres_server.url.replace(PASSWORD, "another-secret"), table=name)
    with pytest.raises(ConnectorError, match="password authentication failed") as refused:
        wrong.connect_sink(place)
    assert not isinstance(refused.value, RetriableConnectorError)
    for shown in (str(caught.value), str(refused.value), str(wrong), repr(wrong)):
        assert PASSWORD not in shown
        assert "another-secret" not in shown
    with pytest.raises(ConnectorError, match=f"has no table {name}"):
        postgres(postgres_server.url, table=name).connect_source(place)


def test_every_type_comes_back_as_it_was(
    spark: SparkSession,
    write: Callable[..., None],
    place: FlowPlace,
    connection: psycopg.Connection[Any],
    name: str,
    postgres_server: PostgresServer,
) -> None:
    frame = _every_type(spark)
    sink = postgres(postgres_server.url, table=name)
    write(sink, frame, "")
    types = connection.execute(
        f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{name}'::regclass "
        "AND attnum > 0 ORDER BY attnum"
    ).fetchall()
    assert dict(types) == {
        "flag": "boolean",
        "tiny": "smallint",
        "small": "smallint",
        "number": "integer",
        "large": "bigint",
        "half": "real",
        "whole": "double precision",
        "price": "numeric(12,2)",
        "words": "text",
        "day": "date",
        "at": "timestamp with time zone",
        "local": "timestamp without time zone",
        "raw": "bytea",
        "list": "text[]",
        "times": "timestamp with time zone[]",
        "nested": "jsonb",
    }
    read = postgres(postgres_server.url, table=name)
    found = read.sample(FlowStart(spark, place))
    kept = [column for column in frame.columns if column not in ("nested", "tiny")]
    assert found.select(kept).dtypes == frame.select(kept).dtypes
    # NaN equals itself in Spark's comparison.
    assert found.select(kept).exceptAll(frame.select(kept)).count() == 0
    assert found.count() == 2
    assert found.select("nested").dtypes == [("nested", "string")]
    nested = [row["nested"] for row in found.collect()]
    assert sorted(nested, key=str) == [None, '{"a": 1, "b": [{"c": null}]}']


def test_types_that_spark_does_not_have_are_texts(
    spark: SparkSession,
    place: FlowPlace,
    write: Callable[..., None],
    connection: psycopg.Connection[Any],
    name: str,
    postgres_server: PostgresServer,
) -> None:
    connection.execute(
        "DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'ok'); EXCEPTION WHEN duplicate_object THEN END $$"
    )
    connection.execute(
        f"CREATE TABLE {name} (u uuid, j json, b jsonb, n numeric, m mood, i inet, v interval, a int[], s varchar(12))"
    )
    texts = ("6f1c7f0e-0d3a-4c53-9a3e-0b6f7f2f6a10", '{"a":1}', '{"b": 2}')
    schema = "u string, j string, b string, n decimal(38,18), m string, i string, v string, a array<int>, s string"
    row = (*texts, Decimal("1.5"), "ok", "10.0.0.1", "PT5M", [1, None, 3], 'a "b", \\ {}')
    write(postgres(postgres_server.url, table=name), [row, (None,) * 9], schema)
    found = postgres(postgres_server.url, table=name).sample(FlowStart(spark, place))
    expected = (*row[:5], "10.0.0.1/32", *row[6:])
    assert sorted(map(tuple, found.collect()), key=str) == [expected, (None,) * 9]


def _every_type(spark: SparkSession) -> DataFrame:
    first = """SELECT true AS flag, 1Y AS tiny, 2S AS small, 3 AS number, 4L AS large, 1.5F AS half, 2.5D AS whole,
        CAST('-12.34' AS decimal(12,2)) AS price, 'a "b", \\\\ \\n c' AS words, DATE '2024-02-29' AS day,
        TIMESTAMP '2024-02-29 12:34:56.789012' AS at, TIMESTAMP_NTZ '1969-12-31 23:59:59.5' AS local,
        X'00ff10' AS raw, array('a "b"', NULL, '', 'NULL', 'x\\\\y,{z}') AS list,
        array(TIMESTAMP '2024-02-29 12:34:56.789012') AS times,
        named_struct('a', 1, 'b', array(named_struct('c', CAST(NULL AS int)))) AS nested"""
    columns = spark.sql(first)
    nothing = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in columns.dtypes)
    special = nothing.replace("CAST(NULL AS double)", "CAST('NaN' AS double)").replace(
        "CAST(NULL AS string) AS words", "'' AS words"
    )
    return columns.unionAll(spark.sql(f"SELECT {special}"))
