"""Rows a second to and from a PostgreSQL table: what a task of a flow does, next to psycopg's COPY alone.

    python -m bench.postgres [--rows 500000] [--rounds 3]

One process and one connection at a time, without Spark: rows of five columns (two numbers, a text, a time, a float) are
copied to a staging table and merged, as the sink does, and read as Arrow batches, as the source does. COPY alone sends
the same rows as CSV that was made before, and throws away what it reads. The median of the rounds is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from pyarrow import csv
from tests.postgres_server import PostgresServer

from tailrace.spark.connector.postgres import staging
from tailrace.spark.connector.postgres.connection import parse_database
from tailrace.spark.connector.postgres.merge import Merge
from tailrace.spark.connector.postgres.postgres import postgres
from tailrace.spark.connector.postgres.stream import read_chunk
from tailrace.spark.connector.postgres.table import TableName
from tailrace.spark.connector.reject import Rejects

COLUMNS = ("id", "cents", "name", "at", "price")
TABLE = TableName("orders")
CREATE = "CREATE TABLE orders (id bigint PRIMARY KEY, cents bigint, name text, at timestamptz, price double precision)"


def make_rows(count: int) -> list[pa.RecordBatch]:
    """Return the rows in batches as Spark sends them."""
    ids = np.arange(count)
    columns = {
        "id": pa.array(ids),
        "cents": pa.array(ids * 7),
        "name": pa.array([f"customer {number % 5000}" for number in range(count)]),
        "at": pa.array(ids * 1_000_000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "price": pa.array(ids * 1.5),
        staging.DELETE: pa.array(np.zeros(count, bool)),
    }
    batches: list[pa.RecordBatch] = pa.table(columns).to_batches(10_000)
    return batches


def measure(prepare: Callable[[], None], work: Callable[[], None], rounds: int) -> float:
    """Return the median of the seconds that the work takes."""
    taken = []
    for _ in range(rounds):
        prepare()
        before = time.perf_counter()
        work()
        taken.append(time.perf_counter() - before)
    return statistics.median(taken)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with PostgresServer() as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(CREATE)
        for name, seconds in run(server, connection, make_rows(arguments.rows), arguments.rounds).items():
            print(f"{name:<42} {arguments.rows / seconds:>12,.0f} rows/s")


def run(
    server: PostgresServer, connection: psycopg.Connection[Any], rows: list[pa.RecordBatch], rounds: int
) -> dict[str, float]:
    """Return the seconds of each way."""
    database = parse_database("bench", server.url)
    name = staging.new_name("0" * 32)
    count = sum(batch.num_rows for batch in rows)
    plain = pa.Table.from_batches(rows).select(COLUMNS)
    plain = plain.set_column(3, "at", plain["at"].cast(pa.timestamp("us")))
    buffer = BytesIO()
    csv.write_csv(plain, buffer, csv.WriteOptions(include_header=False))

    def empty() -> None:
        connection.execute("TRUNCATE orders")

    def stage() -> None:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        staging.create(connection, TABLE, name, COLUMNS)
        list(staging.CopyTask(database, TABLE, name, Rejects("bench"))(iter(rows)))

    def merge(key: tuple[str, ...]) -> None:
        with connection.transaction():
            Merge(TABLE, name, COLUMNS, key, False, [0], Rejects("bench")).run(connection, count)

    def copy_in() -> None:
        with connection.cursor().copy("COPY orders FROM STDIN (FORMAT csv)") as copy:
            copy.write(buffer.getvalue())

    def copy_out() -> None:
        with connection.cursor().copy("COPY orders TO STDOUT (FORMAT csv)") as copy:
            for _ in copy:
                pass

    read = postgres(server.url, table="orders")._describe_read()

    def read_all() -> None:
        for _ in read_chunk(read, "true"):
            pass

    def nothing() -> None:
        pass

    return {
        "COPY alone, into the table": measure(empty, copy_in, rounds),
        "sink: copy to the staging table": measure(nothing, stage, rounds),
        "sink: merge, append": measure(empty, lambda: merge(()), rounds),
        "sink: merge, upsert of new rows": measure(empty, lambda: merge(("id",)), rounds),
        "sink: merge, upsert of existing rows": measure(nothing, lambda: merge(("id",)), rounds),
        "COPY alone, from the table": measure(nothing, copy_out, rounds),
        "source: one chunk as Arrow batches": measure(nothing, read_all, rounds),
    }


if __name__ == "__main__":
    main()
