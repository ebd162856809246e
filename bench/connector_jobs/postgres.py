"""Jobs with PostgreSQL: a table as a sink and as a source next to Spark's JDBC source, and changes next to Debezium."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from tests.postgres_server import PostgresServer

from bench.connector_jobs.jdbc import COPY_OUT, CREATE, read_by_jdbc
from bench.connector_jobs.job import Instead, Job, Place, raw_topic_sink, topic_sink, topic_source
from bench.debezium import DEBEZIUM_VERSION, debezium_config
from bench.kafka_connect import KafkaConnect

if TYPE_CHECKING:
    from psycopg import Connection

_TRANSACTION_ROWS = 1_000
_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE active_pid IS NULL"


@dataclass
class Tables:
    """The tables of one server."""

    server: PostgresServer
    connection: Connection[Any]
    rows: list[tuple[Any, ...]]

    def copy(self, table: str) -> None:
        """Fill a table in one transaction."""
        with self.connection.cursor().copy(f"COPY {table} FROM STDIN") as target:
            for row in self.rows:
                target.write_row(row)

    def read(self, table: str) -> None:
        """Read a table as bytes."""
        with self.connection.cursor().copy(f"COPY {table} TO STDOUT") as source:
            for _ in source:
                pass

    def start_slot(self, name: str) -> None:
        """Create a slot whose only changes are the rows of the table `streamed`, some in each transaction."""
        self.connection.execute(_DROP_SLOTS)
        self.connection.execute(f"DROP PUBLICATION IF EXISTS {name}")
        self.connection.execute("TRUNCATE streamed")
        self.connection.execute(f"CREATE PUBLICATION {name} FOR TABLE streamed")
        self.connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
        for start in range(0, len(self.rows), _TRANSACTION_ROWS):
            with self.connection.cursor().copy("COPY streamed FROM STDIN") as target:
                for row in self.rows[start : start + _TRANSACTION_ROWS]:
                    target.write_row(row)


def postgres_jobs(place: Place) -> Iterator[Job]:
    """A table as a sink and as a source, a snapshot of it, and its changes."""
    server = place.stack.enter_context(PostgresServer())
    connection = place.stack.enter_context(psycopg.connect(server.url, autocommit=True))
    for name in ("sink", "alone", "source", "streamed"):
        connection.execute(CREATE.format(name))
    columns = (place.rows.table.column(name).to_pylist() for name in ("id", "cents", "name", "at"))
    tables = Tables(server, connection, list(zip(*columns, strict=True)))
    count = place.rows.count

    def empty() -> None:
        connection.execute("TRUNCATE sink, alone")

    def drop_slots() -> None:
        connection.execute(_DROP_SLOTS)

    sink = {"connector": "postgres", "url": server.url, "table": "sink", "key": "id"}
    yield Job(
        "topic to postgres, upsert",
        *(topic_source(), lambda: sink, count),
        *("psycopg COPY, row by row", lambda: tables.copy("alone"), empty),
    )
    tables.copy("source")
    table = {"connector": "postgres", "url": server.url, "table": "source", "key": "id"}
    yield Job(
        *("postgres to topic", table, topic_sink, count, COPY_OUT, lambda: tables.read("source")),
        instead=read_by_jdbc(place, server.url),
    )
    changes = {"connector": "postgres_changes", "url": server.url, "format": "records"}
    yield Job(
        *("postgres changes to topic, snapshot", changes | {"tables": "source"}, raw_topic_sink, count),
        *(COPY_OUT, lambda: tables.read("source"), drop_slots),
        instead=_debezium(place, tables, "source", "initial", lambda _: None),
    )
    yield Job(
        "postgres changes to topic, stream",
        changes | {"tables": "streamed", "slot": "ours", "snapshot": "never"},
        *(raw_topic_sink, count, COPY_OUT, lambda: tables.read("streamed")),
        lambda: tables.start_slot("ours"),
        instead=_debezium(place, tables, "streamed", "no_data", tables.start_slot),
    )


def _debezium(
    place: Place, tables: Tables, table: str, snapshot: str, prepare: Callable[[str], None]
) -> tuple[Instead, ...]:
    connect = None if place.debezium is None else place.connect()
    if connect is None:
        return ()

    def run() -> float:
        topic, name = place.create_topic(), f"theirs_{uuid.uuid4().hex[:8]}"
        prepare(name)
        with _running(connect, tables, name, topic, table, snapshot):
            return place.watch_topic(topic)

    return (Instead(f"Debezium {DEBEZIUM_VERSION.removesuffix('.Final')} in Kafka Connect", run),)


@contextmanager
def _running(connect: KafkaConnect, tables: Tables, name: str, topic: str, table: str, snapshot: str) -> Iterator[None]:
    """Run Debezium's connector, which writes to one topic, during the block."""
    config = debezium_config(tables.server.url, [f"public.{table}"], name, name) | {
        "snapshot.mode": snapshot,
        "slot.drop.on.stop": "true",
        "provide.transaction.metadata": "false",
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": f"{name}.*",
        "transforms.route.replacement": topic,
    }
    with connect.running(config):
        yield
