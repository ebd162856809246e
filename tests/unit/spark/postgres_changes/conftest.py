"""A database of its own for each test, so that no test sees the slots and changes of another one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.spark.postgres_changes.changes_run import ChangesRun

if TYPE_CHECKING:
    from psycopg import Connection

    from tailrace.spark.connector.postgres_changes.postgres_changes import PostgresChanges

RunOf = Callable[["PostgresChanges"], ChangesRun]


@dataclass(frozen=True, slots=True)
class OwnDatabase:
    """A database, and a connection to it."""

    url: str
    connection: Connection[Any]

    def run(self, *statements: str) -> None:
        """Run statements, each in a transaction of its own."""
        for statement in statements:
            self.connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return self.connection.execute(query.encode()).fetchall()


@pytest.fixture
def database(postgres_server: Any) -> Iterator[OwnDatabase]:
    """A database that is dropped after the test, with its slots."""
    import psycopg

    name = f"changes_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}".encode())
        with psycopg.connect(postgres_server.url_of(name), autocommit=True) as connection:
            yield OwnDatabase(postgres_server.url_of(name), connection)
        server.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            "WHERE database = %s AND active_pid IS NOT NULL",
            [name],
        )
        server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def run_of(tmp_path: Path) -> Iterator[RunOf]:
    """Makes runs of sources whose connections are closed after the test."""
    runs: list[ChangesRun] = []

    def create(source: PostgresChanges) -> ChangesRun:
        runs.append(ChangesRun(source, tmp_path))
        return runs[-1]

    yield create
    for run in runs:
        run.crash()
