"""The merge of a staging table into the table of a sink, in one transaction with the note of the batch.

The row of a key that comes last within a batch wins. The order is that of the rows in a task, and of the tasks: records
of one key are in one partition of a topic, so a flow without a shuffle keeps their order.

The id of a streaming query is in its checkpoint, and `tailrace pipeline reset` begins a new one. The note of a batch
has the id, the number of the batch and the fingerprint of its plan; a batch that is noted was merged, and is not merged
again. The row of the note is locked until the transaction ends, so of two drivers that write the same batch, one finds
it done.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.postgres.connection import is_of_row, reason_of_row
from tailrace.spark.connector.postgres.staging import DELETE, ROW, TASK, refused_row
from tailrace.spark.connector.postgres.table import BATCHES, TableName, identifiers
from tailrace.spark.connector.reject import Rejects
from tailrace.spark.connector.replay import is_repeated
from tailrace.spark.error import RetriableConnectorError

if TYPE_CHECKING:
    from psycopg import Connection, sql

_NOTE = """\
INSERT INTO {batches} AS b (flow, query_id, batch_id, plan) VALUES (%s, %s, %s, %s)
ON CONFLICT (flow, query_id) DO UPDATE SET batch_id = EXCLUDED.batch_id, plan = EXCLUDED.plan, committed_at = now()
WHERE b.batch_id < EXCLUDED.batch_id"""


@dataclass(frozen=True, slots=True)
class Note:
    """The place of a batch in a flow."""

    flow: str
    query_id: str
    batch_id: int
    plan: str | None = None
    """The fingerprint of the batch."""

    def is_written(self, connection: "Connection[Any]", table: TableName) -> bool:
        """Return whether the batch was merged before.

        Raises `ConnectorError` if a later batch was, or another one of this number.
        """
        from psycopg import sql

        query = sql.SQL("SELECT batch_id, plan FROM {} WHERE flow = %s AND query_id = %s")
        found = connection.execute(query.format(table.sibling(BATCHES)), [self.flow, self.query_id]).fetchone()
        last, noted = (None, None) if found is None else found
        return is_repeated(last, self.batch_id, self.flow, f"table {table}", noted, self.plan)

    def write(self, connection: "Connection[Any]", table: TableName) -> bool:
        """Note the batch in the current transaction; returns False if it is noted already."""
        from psycopg import sql

        command = sql.SQL(_NOTE).format(batches=table.sibling(BATCHES))
        return connection.execute(command, [self.flow, self.query_id, self.batch_id, self.plan]).rowcount == 1


@dataclass(frozen=True, slots=True)
class Merge:
    """Merges the rows that some attempts of tasks have copied."""

    table: TableName
    staging: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """The key of rows to update; without one, all rows are inserted."""
    has_deletes: bool
    tasks: Sequence[int]
    rejects: Rejects

    def run(self, connection: "Connection[Any]", row_count: int) -> Counter[str]:
        """Merge in the current transaction; returns the number of refused rows by reason."""
        from psycopg import sql

        query = sql.SQL("SELECT count(*) FROM {} WHERE {} = ANY(%s)")
        found = connection.execute(query.format(self._staging, sql.Identifier(TASK)), [list(self.tasks)]).fetchone()
        if found != (row_count,):
            raise RetriableConnectorError(
                f"writing to table {self.table}: the tasks copied {row_count} rows, and {found[0] if found else 0} are "
                "left, because the database was restarted"
            )
        refused = Counter[str]()
        self._refuse_null_keys(connection, refused)
        self._merge(connection, None, refused)
        return refused

    def _refuse_null_keys(self, connection: "Connection[Any]", refused: Counter[str]) -> None:
        """Refuse the rows without a key: they would all count as one row."""
        if not self.key:
            return
        for number in self._numbers(connection, is_without_key=True):
            self._refuse(connection, number, "a column of the key is null", refused)

    def _refuse(self, connection: "Connection[Any]", number: int, reason: str, refused: Counter[str]) -> None:
        row = refused_row(self.table, reason, self._row(connection, number))
        self.rejects.refuse([row])
        refused[row.reason] += 1

    def _merge(self, connection: "Connection[Any]", rows: list[int] | None, refused: Counter[str]) -> None:
        """Merge all rows, or those of these numbers, in halves if the database refuses one of them."""
        import psycopg

        try:
            with connection.transaction():
                self._write(connection, rows)
            return
        except psycopg.Error as error:
            if not is_of_row(error):
                raise
            reason = reason_of_row(error)
        if rows is None:
            rows = self._numbers(connection)
        if len(rows) == 1:
            self._refuse(connection, rows[0], reason, refused)
            return
        half = len(rows) // 2
        self._merge(connection, rows[:half], refused)
        self._merge(connection, rows[half:], refused)

    def _write(self, connection: "Connection[Any]", rows: list[int] | None) -> None:
        from psycopg import sql

        chosen = sql.SQL("SELECT {} FROM {} WHERE {} = ANY(%(tasks)s)").format(
            sql.SQL("DISTINCT ON ({}) *").format(identifiers(self.key)) if self.key else sql.SQL("*"),
            self._staging,
            sql.Identifier(TASK),
        )
        if rows is not None:
            chosen += sql.SQL(" AND {} BETWEEN %(first)s AND %(last)s").format(sql.Identifier(ROW))
        if self.key:
            chosen += sql.SQL(" AND NOT ({})").format(self._has_no_key)
            chosen += sql.SQL(" ORDER BY {}, {} DESC").format(identifiers(self.key), sql.Identifier(ROW))
        values = {"tasks": list(self.tasks), "first": rows[0] if rows else 0, "last": rows[-1] if rows else 0}
        if self.has_deletes:
            connection.execute(self._delete(chosen), values)
        connection.execute(self._insert(chosen), values)

    def _delete(self, chosen: "sql.Composed") -> "sql.Composed":
        from psycopg import sql

        same = sql.SQL(" AND ").join(sql.SQL("t.{0} = s.{0}").format(sql.Identifier(name)) for name in self.key)
        command = sql.SQL("DELETE FROM {} AS t USING ({}) AS s WHERE s.{} AND {}")
        return command.format(self.table.quoted, chosen, sql.Identifier(DELETE), same)

    def _insert(self, chosen: "sql.Composed") -> "sql.Composed":
        from psycopg import sql

        names = identifiers(self.columns)
        command = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM ({}) AS s WHERE NOT s.{}").format(
            self.table.quoted, names, names, chosen, sql.Identifier(DELETE)
        )
        if not self.key:
            return command
        others = [name for name in self.columns if name not in self.key]
        if not others:
            return command + sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(identifiers(self.key))
        new = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
        return command + sql.SQL(" ON CONFLICT ({}) DO UPDATE SET {}").format(identifiers(self.key), new)

    def _numbers(self, connection: "Connection[Any]", *, is_without_key: bool = False) -> list[int]:
        """Return the numbers of the rows that have a key, or of those that have none."""
        from psycopg import sql

        where = self._has_no_key if is_without_key else sql.SQL("NOT ({})").format(self._has_no_key)
        query = sql.SQL("SELECT {0} FROM {1} WHERE {2} = ANY(%s) AND {3} ORDER BY {0}").format(
            sql.Identifier(ROW), self._staging, sql.Identifier(TASK), where
        )
        return [number for (number,) in connection.execute(query, [list(self.tasks)])]

    @property
    def _has_no_key(self) -> "sql.Composable":
        from psycopg import sql

        tests = [sql.SQL("{} IS NULL").format(sql.Identifier(name)) for name in self.key]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(tests)) if tests else sql.SQL("FALSE")

    def _row(self, connection: "Connection[Any]", number: int) -> dict[str, Any]:
        from psycopg import sql
        from psycopg.rows import dict_row

        query = sql.SQL("SELECT * FROM {} WHERE {} = %s AND {} = ANY(%s)").format(
            self._staging, sql.Identifier(ROW), sql.Identifier(TASK)
        )
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query, [number, list(self.tasks)]).fetchone() or {}

    @property
    def _staging(self) -> "sql.Identifier":
        return self.table.sibling(self.staging)
