"""The server that other tests use keeps its rows when it is stopped or killed."""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres_server import PostgresServer, started_server

pytestmark = pytest.mark.slow


def test_rows_outlive_stop_and_kill() -> None:
    with started_server() as server:
        _run(server, "CREATE TABLE numbers (n int)")
        for number, end in enumerate((server.stop, server.kill)):
            _run(server, f"INSERT INTO numbers VALUES ({number})")
            end()
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(server.url)
            server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT n FROM numbers ORDER BY n").fetchall() == [(0,), (1,)]
            assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
    assert not server.folder.exists()


def _run(server: PostgresServer, command: str) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute(command)
