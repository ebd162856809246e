"""Jobs with a table of PostgreSQL by JDBC, next to Spark's own JDBC source and sink without a flow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from tests.postgres_server import PostgresServer

from bench.connector_jobs.job import SCHEMA, TOPIC, Instead, Job, Place, topic_sink, topic_source

CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY, cents bigint, name text, at timestamptz)"
COPY_OUT = "psycopg COPY, bytes thrown away"
_DRIVER = "org.postgresql.Driver"


def jdbc_jobs(place: Place) -> Iterator[Job]:
    """A table as a source in two partitions, and as a sink."""
    if place.jdbc_jar is None:
        print("jdbc is left out: there is no driver")
        return
    server = place.stack.enter_context(PostgresServer())
    connection = place.stack.enter_context(psycopg.connect(server.url, autocommit=True))
    for name in ("source", "sink", "alone", "other"):
        connection.execute(CREATE.format(name))
    rows = [*zip(*(place.rows.table.column(name).to_pylist() for name in SCHEMA_NAMES), strict=True)]

    def copy(table: str) -> None:
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as target:
            for row in rows:
                target.write_row(row)

    def read() -> None:
        with connection.cursor().copy("COPY source TO STDOUT") as source:
            for _ in source:
                pass

    def empty() -> None:
        connection.execute("TRUNCATE sink, alone, other")

    copy("source")
    url, login = _place_of(server.url)
    table = {"connector": "jdbc", "url": url, "driver": _DRIVER}
    parts = login | partitions(place)
    yield Job(
        "jdbc to topic, two partitions",
        *(table | {"table": "source", "options": parts}, topic_sink, place.rows.count, COPY_OUT, read),
        instead=read_by_jdbc(place, server.url),
    )
    yield Job(
        "topic to jdbc",
        *(topic_source(), lambda: table | {"table": "sink", "options": login}, place.rows.count),
        *("psycopg COPY, row by row", lambda: copy("alone"), empty),
        instead=(Instead("spark.write.jdbc of a batch", lambda: _write_by_jdbc(place, url, login)),),
    )


SCHEMA_NAMES = tuple(column.split()[0] for column in SCHEMA.split(", "))


def _place_of(url: str) -> tuple[str, dict[str, str]]:
    """Return the URL for JDBC, and the user and the password."""
    info = conninfo_to_dict(url)
    login = {"user": str(info["user"]), "password": str(info["password"])}
    return f"jdbc:postgresql://{info['host']}:{info['port']}/{info['dbname']}", login


def partitions(place: Place) -> dict[str, str]:
    """Return the options with which Spark reads a table in as many partitions as the session has cores."""
    return {
        "partitionColumn": "id",
        "lowerBound": "0",
        "upperBound": str(place.rows.count),
        "numPartitions": "2",
        "fetchsize": "10000",
    }


def read_by_jdbc(place: Place, url: str) -> tuple[Instead, ...]:
    """Spark's own JDBC source, as a batch that is written to a topic."""
    if place.jdbc_jar is None:
        return ()
    address, login = _place_of(url)
    options = {"url": address, "driver": _DRIVER, "dbtable": "source"} | login | partitions(place)

    def run() -> float:
        topic = place.create_topic()
        begun_s = time.perf_counter()
        rows = place.spark.read.format("jdbc").options(**options).load().selectExpr("to_json(struct(*)) AS value")
        target = {"kafka.bootstrap.servers": place.servers, "topic": topic}
        rows.write.format("tailrace").options(**target).mode("append").save()
        return time.perf_counter() - begun_s

    return (Instead("spark.read.jdbc, two partitions", run),)


def _write_by_jdbc(place: Place, url: str, login: dict[str, str]) -> float:
    from pyspark.sql.functions import col, from_json

    source = {"kafka.bootstrap.servers": place.servers, "subscribe": TOPIC, "columns": "value"}
    options: dict[str, Any] = {"url": url, "driver": _DRIVER, "dbtable": "other", **login}
    begun_s = time.perf_counter()
    records = place.spark.read.format("tailrace").options(**source).load()
    rows = records.select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    rows.write.format("jdbc").options(**options).mode("append").save()
    return time.perf_counter() - begun_s
