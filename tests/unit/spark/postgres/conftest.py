"""A table of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.postgres_server import PostgresServer


@pytest.fixture
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits each command."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """The name of a table that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"
