"""Tables of PostgreSQL as sources and sinks of flows."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.spark.connector.argument import DURATION, check_choice, check_duration_s, require_columns
from tailrace.spark.connector.base import Delivery, FlowPlace, FlowStart, Sink, Source
from tailrace.spark.connector.postgres.column_type import from_raw
from tailrace.spark.connector.postgres.connection import Database, explained, parse_database
from tailrace.spark.connector.postgres.sink import TableSink
from tailrace.spark.connector.postgres.table import (
    TableName,
    check_columns_fit,
    check_key,
    describe,
    exists,
    parse_table,
    set_up,
)
from tailrace.spark.error import ConnectorError, PipelineError
from tailrace.spark.record_place import ORIGIN

if TYPE_CHECKING:
    from psycopg import Connection
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from tailrace.spark.connector.postgres.stream import Read

CHUNK_ROWS = 250_000
SAMPLE_ROWS = 100
_LOOK_BACK = {"interval": "1 hour", "number": "100000"}
_TIMES = ("timestamptz", "timestamp", "date")
_NUMBERS = ("int2", "int4", "int8", "numeric")


class Mode(StrEnum):
    """What becomes of a row whose key is in the table."""

    UPSERT = "upsert"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Postgres(Source, Sink):
    """A table or a query to read, or a table to write; created by `postgres`."""

    modes: ClassVar[tuple[str, ...]] = ("append", "update", "complete")
    deliveries: ClassVar[tuple[Delivery, ...]] = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE)
    takes_origin: ClassVar[bool] = True

    database: Database
    table: TableName | None = None
    query: str | None = None
    key: tuple[str, ...] = ()
    cursor: str | None = None
    look_back: str | None = None
    poll_s: float | None = None
    chunk_rows: int | None = None
    mode: Mode | None = None
    delete_when: str | None = None
    exclude: tuple[str, ...] = ()
    evolve: bool | None = None
    create: bool | None = None

    def __str__(self) -> str:
        return f"postgres {self.table or 'query'} in {self.database}"

    # --- as a source

    def check_source(self) -> None:
        given = {
            "mode": self.mode,
            "delete_when": self.delete_when,
            "evolve": self.evolve,
            "create": self.create,
            "exclude": self.exclude,
        }
        _refuse(given, f"{self} is a source", "is for a sink")
        if len(self.key) > 1:
            raise PipelineError(
                f"{self}: key= of a source is one integer column, by whose ranges it is read in parallel"
            )
        if self.cursor is None:
            _refuse({"look_back": self.look_back, "poll": self.poll_s}, str(self), "needs cursor=")
        elif self.table is None:
            raise PipelineError(f"{self}: cursor= needs table=, because a query does not tell which rows are new")

    def connect_source(self, place: FlowPlace) -> None:
        self._describe_read()

    def read_place(self, place: FlowPlace) -> str:
        # Not the host, which may change while the database stays the same one.
        way = "" if self.cursor is None else " with a cursor"
        return f"{self._shown}{way} of database {self.database.shown.rpartition('/')[2]}"

    def _describe_read(self) -> "Read":
        """Return what is read; raises `PipelineError` or `ConnectorError` if it is not there."""
        from psycopg import sql

        from tailrace.spark.connector.postgres.stream import Read, quote

        doing = f"reading {self._shown}"
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            rows = self._rows(connection)
            columns = describe(connection, sql.SQL(rows))
            is_table = self.table is not None and self._is_table(connection, rows)
        if self.cursor is not None and not is_table:
            raise PipelineError(f"{self}: cursor= needs a table, and this is a view")
        kinds = {column.name: column for column in columns}
        for name in (*self.key, self.cursor):
            if name is not None and name not in kinds:
                raise PipelineError(f"{self} has no column {name}; it has {', '.join(kinds)}")
        cursor_type = "" if self.cursor is None else kinds[self.cursor].type
        if cursor_type and cursor_type not in (*_TIMES, *_NUMBERS):
            raise PipelineError(f"{self}: cursor={self.cursor!r} is {cursor_type}, and not a time or a number")
        if self.key and kinds[self.key[0]].type not in _NUMBERS[:-1]:
            raise PipelineError(f"{self}: key={self.key[0]!r} is {kinds[self.key[0]].shown}, and not an integer")
        kind = "interval" if cursor_type in _TIMES else "number"
        return Read(
            self.database,
            self._shown,
            rows,
            tuple(columns),
            is_table,
            key=self.key[0] if self.key else None,
            cursor=None if self.cursor is None else quote(self.cursor),
            cursor_type=cursor_type,
            look_back=(self.look_back or _LOOK_BACK[kind]) if self.cursor is not None else None,
            poll_s=1.0 if self.poll_s is None else self.poll_s,
            chunk_rows=self.chunk_rows or CHUNK_ROWS,
        )

    @property
    def _shown(self) -> str:
        return f"table {self.table}" if self.table is not None else "a query"

    def _rows(self, connection: "Connection[Any]") -> str:
        if self.table is None:
            return f"({self.query})"
        if not exists(connection, self.table):
            raise ConnectorError(f"{self.database} has no table {self.table}")
        return self.table.quoted.as_string(connection)

    def _is_table(self, connection: "Connection[Any]", rows: str) -> bool:
        query = "SELECT relkind IN ('r', 'p') FROM pg_class WHERE oid = to_regclass(%s)"
        return connection.execute(query, [rows]).fetchone() == (True,)

    def read(self, start: FlowStart) -> "DataFrame":
        from tailrace.spark.connector.postgres.stream import source_class

        read = self._describe_read()
        which = hashlib.sha256(f"{start.place.flow} {self} {self.query} {self.cursor} {self.key}".encode())
        name = f"postgres_{which.hexdigest()[:12]}"
        start.spark.dataSource.register(source_class(name, read))
        return start.spark.readStream.format(name).load().select(*map(from_raw, read.columns))

    def sample(self, start: FlowStart) -> "DataFrame":
        import pyarrow as pa

        from tailrace.spark.connector.postgres.stream import read_chunk

        read = self._describe_read()
        newest = f"true ORDER BY {read.cursor} DESC NULLS LAST" if read.cursor else "true"
        found = list(read_chunk(read, f"{newest} LIMIT {SAMPLE_ROWS}"))
        rows: Any = pa.Table.from_batches(found) if found else []
        frame: DataFrame = start.spark.createDataFrame(rows, read.raw_schema)
        return frame.select(*map(from_raw, read.columns))

    # --- as a sink

    def check_sink(self) -> None:
        given = {
            "query": self.query,
            "cursor": self.cursor,
            "look_back": self.look_back,
            "poll": self.poll_s,
            "chunk_rows": self.chunk_rows,
        }
        _refuse(given, f"{self} is a sink", "is for a source")
        if self.mode is Mode.UPSERT and not self.key:
            raise PipelineError(f'{self}: mode="upsert" needs key=, the columns that tell which row to update')
        if self.delete_when is not None and not self._merge_key:
            raise PipelineError(f"{self}: delete_when= needs key=, the columns that tell which row to delete")

    @property
    def _merge_key(self) -> tuple[str, ...]:
        return () if self.mode is Mode.APPEND else self.key

    @property
    def _target(self) -> TableName:
        if self.table is None:
            raise PipelineError(f"{self} is a sink, and needs table=")
        return self.table

    def connect_sink(self, place: FlowPlace) -> None:
        doing = f"reaching table {self._target}"
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            if self._merge_key and exists(connection, self._target):
                check_key(connection, self._target, self._merge_key)

    def prepare(self, rows: "DataFrame", start: FlowStart) -> "DataFrame":
        from pyspark.sql.functions import expr

        if start.place.mode != "append" and not self._merge_key:
            raise PipelineError(f"{self} needs key= for mode={start.place.mode!r}, which writes a row again")
        require_columns(rows, (*self.key, *self.exclude), self)
        if self.delete_when is not None:
            rows.select(expr(self.delete_when).cast("boolean"))  # Spark refuses a wrong condition here
        schema = self._written(rows.schema)
        key = [name for name in self._merge_key if name not in schema.fieldNames()]
        if key:
            raise PipelineError(f"{self}: exclude= has the column {key[0]} of the key")
        doing = f"preparing table {self._target}"
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            is_there = exists(connection, self._target)
            columns = describe(connection, self._target.quoted) if is_there else []
        if not is_there and self.create is False:
            raise PipelineError(f"{self} does not exist, and create= is False; create the table")
        check_columns_fit(self._target, columns, schema, evolve=self._may_evolve or not is_there)
        start.before_start(lambda: self._set_up(schema, start.place))
        return rows

    @property
    def _may_evolve(self) -> bool:
        return self.evolve is not False

    def _written(self, schema: "StructType") -> "StructType":
        from pyspark.sql.types import StructType

        return StructType([field for field in schema.fields if field.name not in (*self.exclude, ORIGIN)])

    def _set_up(self, schema: "StructType", place: FlowPlace) -> None:
        doing = f"preparing table {self._target}"
        with self.database.connect(doing=doing, autocommit=True) as connection, explained(doing):
            is_exact = place.delivery is Delivery.EXACTLY_ONCE
            set_up(connection, self._target, schema, self._merge_key, evolve=self._may_evolve, with_batches=is_exact)

    def write_batch(self, batch: "DataFrame", batch_id: int, place: FlowPlace) -> None:
        TableSink(self.database, self._target, self._merge_key, self.delete_when, self.exclude).write(
            batch, batch_id, place
        )


def postgres(
    url: str,
    *,
    table: str | None = None,
    query: str | None = None,
    key: str | Sequence[str] = (),
    cursor: str | None = None,
    look_back: str | int | None = None,
    poll: str | None = None,
    chunk_rows: int | None = None,
    mode: str | None = None,
    delete_when: str | None = None,
    exclude: str | Sequence[str] = (),
    evolve: bool | None = None,
    create: bool | None = None,
) -> Postgres:
    """A table or a query of PostgreSQL as the source of a flow, or a table as its sink.

    `url` is such as "postgresql://user@host:5432/database"; the password is in it, or in PGPASSWORD.

    A source is read once, in parallel chunks: by ranges of an integer column `key`, or of pages without one. With a
    `cursor`, a column that increases with each insert or update, the rows of later transactions follow, however late
    they commit. `look_back` bounds how far behind the newest cursor such a row may be: "1 hour" for times, 100000 for
    numbers. `poll` is how often the table is looked at: "1 second".

    A sink updates the row with the same `key`, or inserts one; without a key, or with mode="append", it inserts all
    rows. Rows for which the SQL condition `delete_when` is true delete the row of their key. The columns `exclude` are
    not written. The table is made if it is missing, unless `create` is False, and gets the columns that it lacks unless
    `evolve` is False.
    """
    place = f"postgres(table={table!r})" if table is not None else "postgres(query=…)"
    if (table is None) == (query is None):
        raise PipelineError("postgres() needs either table= or query=")
    if query is not None and (not isinstance(query, str) or not query.strip().rstrip(";")):
        raise PipelineError(f"{place}: query= is not a query")
    if chunk_rows is not None and (not isinstance(chunk_rows, int) or isinstance(chunk_rows, bool) or chunk_rows < 1):
        raise PipelineError(f"{place}: chunk_rows={chunk_rows!r} is not a positive number")
    for label, flag in (("evolve", evolve), ("create", create)):
        if flag is not None and not isinstance(flag, bool):
            raise PipelineError(f"{place}: {label}={flag!r} is neither True nor False")
    return Postgres(
        database=parse_database(place, url),
        table=None if table is None else parse_table(place, table),
        query=None if query is None else query.strip().rstrip(";"),
        key=_names(key),
        cursor=cursor,
        look_back=_check_look_back(place, look_back),
        poll_s=None if poll is None else check_duration_s(place, "poll", poll),
        chunk_rows=chunk_rows,
        mode=None if mode is None else Mode(check_choice(place, "mode", mode, Mode)),
        delete_when=delete_when,
        exclude=_names(exclude),
        evolve=evolve,
        create=create,
    )


def _refuse(given: dict[str, Any], what: str, why: str) -> None:
    for name, value in given.items():
        if value not in (None, ()):
            raise PipelineError(f"{what}, and {name}= {why}")


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns, of which a text may have several with commas between them."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(str(name).strip() for name in names if str(name).strip())


def _check_look_back(place: str, given: object) -> str | None:
    if given is None:
        return None
    text = str(given).strip()
    if not isinstance(given, bool) and (text.isdigit() or DURATION.fullmatch(text)):
        return text
    raise PipelineError(f'{place}: look_back={given!r} is neither a duration such as "1 hour" nor a number')
