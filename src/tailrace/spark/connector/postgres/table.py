"""The columns of PostgreSQL tables and queries, and the creation and evolution of tables that flows write."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.postgres.column_type import Column, fits, new_type
from tailrace.spark.error import ConnectorError, PipelineError

if TYPE_CHECKING:
    from psycopg import Connection, sql
    from pyspark.sql.types import StructType

BATCHES = "tailrace_batches"
"""The table in the schema of a sink that notes the last batch of each flow."""
_IDENTIFIER_LENGTH_MAX = 63

_CREATE_BATCHES = """\
CREATE TABLE IF NOT EXISTS {batches} (
    flow text NOT NULL,
    query_id text NOT NULL,
    batch_id bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    plan text,
    PRIMARY KEY (flow, query_id)
)"""
_PLAN = "plan"  # the fingerprint of the batch; tables of earlier versions lack it


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table, with that of its schema if it is given."""

    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> "sql.Identifier":
        """The name as a part of a query."""
        return self.sibling(self.name)

    def sibling(self, name: str) -> "sql.Identifier":
        """Return the name of another table in the same schema."""
        from psycopg import sql

        return sql.Identifier(name) if self.schema is None else sql.Identifier(self.schema, name)


def parse_table(place: str, text: object) -> TableName:
    """Return the name of a table; raises `PipelineError`. Names are taken as they are, without a change of case."""
    parts = text.split(".") if isinstance(text, str) else []
    if not 1 <= len(parts) <= 2 or any(not part or len(part.encode()) > _IDENTIFIER_LENGTH_MAX for part in parts):
        raise PipelineError(f"{place}: {text!r} is not the name of a table such as orders or sales.orders")
    return TableName(parts[-1], parts[0] if len(parts) == 2 else None)


def exists(connection: "Connection[Any]", table: TableName) -> bool:
    """Return whether there is a table, or a view, of this name."""
    shown = table.quoted.as_string(connection)
    return connection.execute("SELECT to_regclass(%s) IS NOT NULL", [shown]).fetchone() == (True,)


def describe(connection: "Connection[Any]", rows: "sql.Composable") -> list[Column]:
    """Return the columns of a table or a query in brackets."""
    from psycopg import sql

    found = connection.execute(sql.SQL("SELECT * FROM {} AS t LIMIT 0").format(rows)).description or []
    codes = sorted({column.type_code for column in found})
    types = connection.execute(
        "SELECT t.oid::bigint, t.typname, t.typtype::text, e.typname FROM pg_type t "
        "LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' WHERE t.oid = ANY(%s::oid[])",
        [codes],
    )
    by_code = {code: (name, kind, element) for code, name, kind, element in types}
    columns = []
    for column in found:
        name, kind, element = by_code[column.type_code]
        columns.append(
            Column(
                column.name,
                element or name,
                is_array=element is not None,
                is_own=kind != "b",
                shown=column.type_display,
                precision=column.precision if (element or name) == "numeric" else None,
                scale=column.scale if (element or name) == "numeric" else None,
            )
        )
    return columns


def check_columns_fit(table: TableName, columns: Sequence[Column], schema: "StructType", *, evolve: bool) -> list[str]:
    """Return the columns that the table lacks; raises `PipelineError` for one that does not fit, or may not be new."""
    known = {column.name: column for column in columns}
    new = []
    for each in schema.fields:
        column = known.get(each.name)
        if column is None:
            if not evolve:
                raise PipelineError(f"table {table} has no column {each.name}, and evolve=False adds none")
            new_type(each)
            new.append(each.name)
        elif not fits(each.dataType, column):
            raise PipelineError(
                f"column {each.name} of table {table} has the type {column.shown}, and the rows have "
                f"{each.dataType.simpleString()}, which does not fit; cast it in the flow, or change the table"
            )
    return new


def check_key(connection: "Connection[Any]", table: TableName, key: Sequence[str]) -> None:
    """Raise `ConnectorError` if no unique index has exactly the columns of the key."""
    found = connection.execute(
        "SELECT array_agg(a.attname::text) FROM pg_index i "
        "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1]) "
        "WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL "
        "GROUP BY i.indexrelid",
        [table.quoted.as_string(connection)],
    ).fetchall()
    if not any(sorted(names) == sorted(key) for (names,) in found):
        raise ConnectorError(
            f"table {table} has no primary key or unique index on ({', '.join(key)}), which key= needs to update rows"
        )


def set_up(
    connection: "Connection[Any]",
    table: TableName,
    schema: "StructType",
    key: Sequence[str],
    *,
    evolve: bool,
    with_batches: bool,
) -> None:
    """Create the table, or add the columns that it lacks, in one transaction, and the table of batches."""
    from psycopg import sql

    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '60s'")  # others wait for this transaction
        # Two flows that create a table at the same time would fail in the catalog.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [zlib.crc32(BATCHES.encode())])
        if with_batches:
            _set_up_batches(connection, table.sibling(BATCHES))
        if not exists(connection, table):
            connection.execute(_create(table, schema, key))
            return
        for name in check_columns_fit(table, describe(connection, table.quoted), schema, evolve=evolve):
            addition = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {}")
            connection.execute(addition.format(table.quoted, _definition(schema, name)))


def _set_up_batches(connection: "Connection[Any]", batches: "sql.Identifier") -> None:
    """Create the table of batches, or add the column that one of an earlier version lacks."""
    import psycopg
    from psycopg import sql

    connection.execute(sql.SQL(_CREATE_BATCHES).format(batches=batches))
    if any(column.name == _PLAN for column in describe(connection, batches)):
        return  # the change would wait for the batches of other flows
    command = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} text").format(batches, sql.Identifier(_PLAN))
    try:
        connection.execute(command)
    except psycopg.errors.InsufficientPrivilege as error:
        shown = command.as_string(connection)
        raise ConnectorError(
            f"{error.diag.message_primary}: table {BATCHES} was made by an earlier version; run {shown} as its owner"
        ) from None


def _create(table: TableName, schema: "StructType", key: Sequence[str]) -> "sql.Composed":
    from psycopg import sql

    parts = [_definition(schema, name) for name in schema.fieldNames()]
    if key:
        parts.append(sql.SQL("PRIMARY KEY ({})").format(identifiers(key)))
    return sql.SQL("CREATE TABLE {} ({})").format(table.quoted, sql.SQL(", ").join(parts))


def _definition(schema: "StructType", name: str) -> "sql.Composable":
    from psycopg import sql

    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(new_type(schema[name])))


def identifiers(names: Iterable[str]) -> "sql.Composed":
    """Return quoted names with commas between them."""
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))
