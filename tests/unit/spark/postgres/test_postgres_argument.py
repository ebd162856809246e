"""Declarations of PostgreSQL tables: what is accepted, what an error says, and that no text has the password."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")

from tailrace.spark.connector.postgres.chunk import page_chunks, split_keys
from tailrace.spark.connector.postgres.postgres import postgres
from tailrace.spark.error import PipelineError

URL = "postgresql://me:very-secret@db.example:5433/sales"


def test_no_text_has_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = postgres(URL, table="public.orders", key="id, line")
    assert str(declared) == "postgres public.orders in postgresql://me@db.example:5433/sales"
    assert "very-secret" not in repr(declared)
    assert "very-secret" in declared.database.conninfo
    assert declared.key == ("id", "line")
    monkeypatch.setenv("PGPASSWORD", "of-the-environment")
    assert "of-the-environment" in postgres("postgresql://me@db/sales", table="t").database.conninfo
    for url in (
        "postgresql://me:very-secret%@db",
        "postgresql://me:very/secret@db/sales",
        "postgresql://me:7/ret@db/x",
    ):
        with pytest.raises(PipelineError, match="url= is not a URL") as caught:
            postgres(url, table="t")
        assert "ret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either table= or query="),
        ({"table": "t", "query": "SELECT 1"}, "either table= or query="),
        ({"table": "a.b.c"}, "is not the name of a table"),
        ({"query": "SELECT 1", "cursor": "at"}, "cursor= needs table="),
        ({"table": "t", "key": "a,b"}, "one integer column"),
        ({"table": "t", "look_back": "1 hour"}, "look_back= needs cursor="),
        ({"table": "t", "cursor": "at", "look_back": "soon"}, "neither a duration"),
        ({"table": "t", "cursor": "at", "poll": "often"}, "is not a duration"),
        ({"table": "t", "mode": "upsert", "key": "id"}, "mode= is for a sink"),
        ({"table": "t", "chunk_rows": 0}, "is not a positive number"),
    ],
)
def test_wrong_sources(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        postgres(URL, **arguments).check_source()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": "SELECT 1"}, "query= is for a source"),
        ({"table": "t", "cursor": "at"}, "cursor= is for a source"),
        ({"table": "t", "mode": "upsert"}, "needs key="),
        ({"table": "t", "mode": "merge"}, "upsert"),
        ({"table": "t", "delete_when": "gone"}, "delete_when= needs key="),
        ({"table": "t", "evolve": "no"}, "neither True nor False"),
        ({"table": "t", "create": "no"}, "create='no' is neither True nor False"),
    ],
)
def test_wrong_sinks(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        postgres(URL, **arguments).check_sink()


def test_chunks_cover_every_key_once() -> None:
    for first, last, count in ((0, 9, 3), (-5, 5, 100), (7, 7, 4), (0, 10**12, 7)):
        ranges = split_keys(first, last, count)
        assert ranges[0][0] is None
        assert ranges[-1][1] is None
        assert all(one[1] == next_one[0] for one, next_one in pairwise(ranges))
        assert len(ranges) == min(count, last - first + 1)
    assert page_chunks(0, 0, 100) == ["true"]
    assert page_chunks(10, 200, 100) == ["(ctid < '(5,0)'::tid)", "(ctid >= '(5,0)'::tid)"]
