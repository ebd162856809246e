"""The reading of a snapshot's chunks; see `row_version` for how they fit to the changes of the slot."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.postgres_changes.catalog import CapturedTable, describe, published_tables
from tailrace.spark.connector.postgres_changes.change import READ, Change
from tailrace.spark.connector.postgres_changes.position import Chunk, Key
from tailrace.spark.connector.postgres_changes.row_version import DatabaseSnapshot, is_changed_since
from tailrace.spark.error import RetriableConnectorError

if TYPE_CHECKING:
    from psycopg import Connection, sql

_CONTAINS_BASE_WAIT_S = 60.0
_CONTAINS_BASE_INTERVAL_S = 0.05
_INLINE_BYTES_MAX = 24
"""PostgreSQL stores no value out of line that is not larger than the pointer to it would be."""


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """What a task needs to read a chunk beside the chunk: the begin of the slot."""

    publication: str
    lsn: int
    base: str
    file: str
    """The file of the table before the slot was created."""


def find_chunk_end(
    connection: "Connection[Any]", table: CapturedTable, after: Key | None, row_count: int
) -> Key | None:
    """Return the key of the last row of a chunk; None if no rows are behind it, or the table has no key."""
    from psycopg import sql

    if not table.key:
        return None
    # The order is that of the columns of the table: a name alone would be that of the selected text.
    query = sql.SQL("SELECT {} FROM {} AS t WHERE {} ORDER BY {} OFFSET {} LIMIT 1").format(
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in table.key),
        table.quoted,
        _bounds(table, Chunk(table.name, after)),
        sql.SQL(", ").join(sql.Identifier("t", name) for name in table.key),
        sql.Literal(row_count - 1),
    )
    found = connection.execute(query).fetchone()
    return None if found is None else tuple(found)


def read_chunk(connection: "Connection[Any]", chunk: Chunk, place: ChunkPlace) -> Iterator[Change]:
    """Yield the rows of a chunk that have not changed since the slot was created, and those that are in doubt."""
    from psycopg import sql

    base = DatabaseSnapshot.parse(place.base)
    now = _begin(connection, chunk, base)
    # All rows are written anew by some kinds of ALTER TABLE, of which the slot tells nothing. The table is locked
    # against them by now, as it is by any query.
    table = describe_published(connection, chunk.table, place.publication)
    is_exact = table.file == place.file and not table.is_partitioned
    query = sql.SQL("COPY (SELECT {}, {}, {} FROM {} WHERE {}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        sql.SQL("xmin") if is_exact else sql.SQL("NULL"),
        _is_wide(table) if is_exact else sql.SQL("NULL"),
        table.quoted,
        _bounds(table, chunk),
    )
    form = table.form
    with connection.cursor().copy(query) as copy:
        for *values, xmin, wide in copy.rows():
            # An update of a row with a value out of line may come without this value, so the row is needed.
            if is_exact and wide != "t" and is_changed_since(base, now, int(xmin)):
                continue
            yield Change(READ, table.name, form.key(values), None, form.row(values), place.lsn)
    connection.execute("COMMIT")


def read_some(connection: "Connection[Any]", table: CapturedTable, row_count: int) -> Iterator[Change]:
    """Yield some rows of a table as they are now."""
    from psycopg import sql

    query = sql.SQL("COPY (SELECT {} FROM {} LIMIT {}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        table.quoted,
        sql.Literal(row_count),
    )
    form = table.form
    with connection.cursor().copy(query) as copy:
        for values in copy.rows():
            yield Change(READ, table.name, form.key(values), None, form.row(values), 0)


def describe_published(connection: "Connection[Any]", name: tuple[str, str], publication: str) -> CapturedTable:
    """Return a table with the columns and rows that a publication has of it, if there is one already."""
    return describe(connection, name, (published_tables(connection, publication) or {}).get(name))


def _begin(connection: "Connection[Any]", chunk: Chunk, base: DatabaseSnapshot) -> DatabaseSnapshot:
    """Begin a transaction whose snapshot sees all that the base sees, and return the snapshot."""
    from psycopg import sql

    deadline_s = time.monotonic() + _CONTAINS_BASE_WAIT_S
    while True:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*chunk.table)))
        found = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        now = DatabaseSnapshot.parse("" if found is None else str(found[0]))
        if now.contains(base):
            return now
        connection.execute("ROLLBACK")
        if time.monotonic() >= deadline_s:
            raise RetriableConnectorError(
                "the snapshot waits for transactions that have committed but are not visible yet; "
                "does a synchronous standby not answer?"
            )
        time.sleep(_CONTAINS_BASE_INTERVAL_S)


def _bounds(table: CapturedTable, chunk: Chunk) -> "sql.Composable":
    from psycopg import sql

    key = sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))
    conditions: list[sql.Composable] = [sql.SQL("true")]
    for comparison, bound in ((">", chunk.after), ("<=", chunk.upto)):
        if bound is not None:
            values = [
                sql.SQL("{}::" + kind).format(sql.Literal(value))
                for value, kind in zip(bound, table.key_types, strict=True)
            ]
            conditions.append(sql.SQL("{} " + comparison + " ({})").format(key, sql.SQL(", ").join(values)))
    if table.row_filter:
        conditions.append(sql.SQL("(" + table.row_filter.replace("{", "{{").replace("}", "}}") + ")"))
    return sql.SQL(" AND ").join(conditions)


def _is_wide(table: CapturedTable) -> "sql.Composable":
    """Return the condition that a row may have a value that is stored out of line."""
    from psycopg import sql

    if not table.has_toast or not table.wide_columns:
        return sql.SQL("false")
    return sql.SQL("({})").format(
        sql.SQL(" OR ").join(
            sql.SQL("coalesce(pg_column_size({}), 0) > {}").format(sql.Identifier(name), _INLINE_BYTES_MAX)
            for name in table.wide_columns
        )
    )
