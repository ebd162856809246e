"""The tables of a publication, as the catalog of the database describes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.postgres_changes.column_type import (
    EXTENSION_TYPES,
    DefinedType,
    Types,
    replace_types,
    replaced,
)
from tailrace.spark.connector.postgres_changes.pgoutput import Column
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName, TableForm
from tailrace.spark.error import ConnectorError

if TYPE_CHECKING:
    from psycopg import Connection, sql

_DESCRIBE = """\
SELECT c.oid::bigint, c.relkind::text, c.relreplident::text,
    coalesce(pg_relation_filenode(c.oid)::text, ''),
    CASE WHEN c.reltoastrelid = 0 THEN 0 ELSE coalesce(pg_relation_size(c.reltoastrelid), 1) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')"""

_COLUMNS = """\
SELECT a.attname::text, a.atttypid::bigint, a.atttypmod, a.attlen, format_type(a.atttypid, a.atttypmod),
    coalesce(array_position(i.indkey[0:i.indnkeyatts - 1]::int[], a.attnum::int), 0)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_index i ON i.indrelid = c.oid
    AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum"""

_KEYS = """\
SELECT t.schemaname::text, t.tablename::text,
    array_agg(a.attname::text ORDER BY array_position(i.indkey[0:i.indnkeyatts - 1]::int[], a.attnum::int))
FROM pg_publication_tables t
JOIN pg_class c ON c.relname = t.tablename
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
JOIN pg_index i ON i.indrelid = c.oid
    AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1])
WHERE t.pubname = %s GROUP BY 1, 2"""

_FIRST_DEFINED_OID = 16_384
"""The types that are not built in have this number or a higher one."""
# Each table has a type of its own, and an array of it: both are left out.
_TYPES = """\
SELECT t.oid::bigint, t.typname::text, t.typbasetype::bigint, t.typtypmod,
    CASE t.typcategory WHEN 'A' THEN t.typelem::bigint ELSE 0 END
FROM pg_type t LEFT JOIN pg_type e ON t.typcategory = 'A' AND e.oid = t.typelem
WHERE t.oid >= %s AND (t.typtype = 'd' OR e.typtype <> 'c' OR t.typname::text = ANY(%s))"""

_VARIABLE_LENGTH = -1


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A table whose changes are read."""

    name: QualifiedName
    columns: tuple[Column, ...]
    wide_columns: tuple[str, ...]
    """The columns whose values may be stored out of line."""
    key: tuple[str, ...]
    key_types: tuple[str, ...]
    """The columns of the key, in the order of its index, and their types in SQL.

    The key is the index that is the replica identity, or else the primary key, as it is in the changes.
    """
    replica_identity: str
    is_partitioned: bool
    file: str
    """The number of the file that holds the rows, which changes when all rows are written anew."""
    has_toast: bool
    row_filter: str | None = None

    @property
    def form(self) -> TableForm:
        """The JSON form of the rows."""
        names = [column.name for column in self.columns]
        return TableForm(self.name, self.columns, [names.index(name) for name in self.key if name in names])

    @property
    def quoted(self) -> "sql.Identifier":
        """The name as a part of a query."""
        from psycopg import sql

        return sql.Identifier(*self.name)


def shown(name: QualifiedName) -> str:
    """Return the name of a table for messages."""
    return ".".join(name)


def published_tables(connection: "Connection[Any]", publication: str) -> dict[QualifiedName, dict[str, Any]] | None:
    """Return the tables of a publication, each with its published columns and its row filter; None without one."""
    if not connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [publication]).rowcount:
        return None
    rows = connection.execute("SELECT to_jsonb(t) FROM pg_publication_tables t WHERE pubname = %s", [publication])
    return {(row["schemaname"], row["tablename"]): row for (row,) in rows}


def describe(
    connection: "Connection[Any]", name: QualifiedName, published: dict[str, Any] | None = None
) -> CapturedTable:
    """Return a table; raises `ConnectorError` if there is none of this name."""
    found = connection.execute(_DESCRIBE, name).fetchone()
    if found is None:
        raise ConnectorError(f"there is no table {shown(name)} in the database")
    oid, kind, identity, file, toast_size = found
    rows = connection.execute(_COLUMNS, [oid]).fetchall()
    names = (published or {}).get("attnames")
    columns = [row for row in rows if names is None or row[0] in names]
    key = sorted((row for row in rows if row[5]), key=lambda row: row[5])
    types = read_types(connection)
    return CapturedTable(
        name,
        tuple(
            replaced(Column(column, type_oid, modifier, bool(order)), types)
            for column, type_oid, modifier, _, _, order in columns
        ),
        tuple(row[0] for row in columns if row[3] == _VARIABLE_LENGTH),
        tuple(row[0] for row in key),
        tuple(row[4] for row in key),
        identity,
        kind == "p",
        file,
        toast_size > 0 or kind == "p",
        (published or {}).get("rowfilter"),
    )


def read_keys(connection: "Connection[Any]", publication: str) -> dict[QualifiedName, tuple[str, ...]]:
    """Return the columns of the keys of a publication's tables, in the order of their index."""
    rows = connection.execute(_KEYS, [publication])
    return {(schema, table): tuple(names) for schema, table, names in rows}


def read_types(connection: "Connection[Any]") -> Types:
    """Return what replaces the domains, the arrays and the types of extensions of the database."""
    rows = connection.execute(_TYPES, [_FIRST_DEFINED_OID, list(EXTENSION_TYPES)])
    return replace_types(DefinedType(*row) for row in rows)


def create_publication(connection: "Connection[Any]", publication: str, tables: Sequence[QualifiedName]) -> None:
    """Create a publication of some tables, whose partitions are published under the name of their table."""
    from psycopg import sql

    names = sql.SQL(", ").join(sql.Identifier(*name) for name in tables)
    connection.execute(
        sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
            sql.Identifier(publication), names
        )
    )
