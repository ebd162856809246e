"""Chunks of a table or a query that tasks read in parallel: ranges of an integer key, or of pages."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection, sql

CHUNKS_MAX = 512
"""Each chunk is a task with a connection of its own; Spark runs as many at a time as it has cores."""

INTEGERS = ("int2", "int4", "int8")


def split_keys(first: int, last: int, count: int) -> list[tuple[int | None, int | None]]:
    """Return ranges of keys of about equal width, from the first key up to without the second one.

    The outer ones are open, because rows may have been added since the first and last key were found.
    """
    count = max(1, min(count, CHUNKS_MAX, last - first + 1))
    edges = [first + (last - first + 1) * index // count for index in range(1, count)]
    return list(pairwise([None, *edges, None]))


def key_chunks(
    connection: "Connection[Any]", rows: "sql.Composable", key: str, where: str, row_count: int, chunk_rows: int
) -> list[str]:
    """Return the conditions of chunks by an integer key; rows without a key are in the first one."""
    from psycopg import sql

    query = sql.SQL("SELECT min({0}), max({0}) FROM {1} AS t WHERE {2}")
    column = sql.Identifier(key)
    found = connection.execute(query.format(column, rows, sql.SQL(where))).fetchone()
    if found is None or found[0] is None:
        return ["true"]
    name = column.as_string(connection)
    return [
        _condition(name, low, high, suffix=f" OR {name} IS NULL" if low is None else "")
        for low, high in split_keys(found[0], found[1], -(-row_count // chunk_rows))
    ]


def page_chunks(page_count: int, row_count: int, chunk_rows: int) -> list[str]:
    """Return the conditions of chunks by the place of rows in the table."""
    count = max(1, min(-(-row_count // chunk_rows), page_count))
    ranges = split_keys(0, max(page_count - 1, 0), count)
    return [
        _condition("ctid", None if low is None else f"'({low},0)'::tid", None if high is None else f"'({high},0)'::tid")
        for low, high in ranges
    ]


def _condition(name: str, low: object, high: object, suffix: str = "") -> str:
    parts = [f"{name} >= {low}"] if low is not None else []
    parts += [f"{name} < {high}"] if high is not None else []
    return f"({' AND '.join(parts)}{suffix})" if parts else "true"


def estimate(connection: "Connection[Any]", table: str) -> tuple[int, int]:
    """Return the number of pages of a table, and about how many rows it has."""
    found = connection.execute(
        "SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint, greatest(c.reltuples, 0)::bigint, "
        "c.relpages FROM pg_class c WHERE c.oid = to_regclass(%s)",
        [table],
    ).fetchone()
    if found is None:
        return 0, 0
    pages, rows, pages_then = found
    # Of a table that was never analysed, only the size is known: rows of 100 bytes are a guess.
    return pages, rows * pages // pages_then if pages_then and rows else pages * 80
