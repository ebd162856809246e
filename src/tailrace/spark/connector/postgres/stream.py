"""The data source that reads a PostgreSQL table or query as a stream.

Without a cursor, the stream is one batch with all rows. With a cursor, batches with the rows of transactions that have
finished since follow: see `seen`. All tasks of a batch read in one snapshot of the database, which the driver exports
and holds until the batch is over, so a row that is updated in between is neither missed nor read twice.

The configuration, with the password, is an attribute of a class that is made for each source and registered in the
session; Spark pickles it with the class, and it is in no option.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace.spark.connector.postgres.chunk import INTEGERS, estimate, key_chunks, page_chunks
from tailrace.spark.connector.postgres.column_type import Column, arrow_type, read_expression
from tailrace.spark.connector.postgres.connection import Database, explained
from tailrace.spark.connector.postgres.seen import Seen, find_seen, new_rows
from tailrace.spark.connector.postgres.table import describe
from tailrace.spark.error import ConnectorError, RetriableConnectorError
from tailrace.spark.message import shorten

if TYPE_CHECKING:
    from psycopg import Connection

Position = dict[str, Any]

_PARSE_BYTES = 4 << 20
_SNAPSHOT = "SELECT pg_export_snapshot(), pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


@dataclass(frozen=True, slots=True)
class Read:
    """What is read; `rows` is a quoted table or a query in brackets."""

    database: Database
    shown: str
    rows: str
    columns: tuple[Column, ...]
    is_table: bool
    key: str | None = None
    cursor: str | None = None
    cursor_type: str = ""
    look_back: str | None = None
    poll_s: float = 1.0
    chunk_rows: int = 250_000

    @property
    def doing(self) -> str:
        """What errors say."""
        return f"reading {self.shown}"

    @property
    def raw_schema(self) -> str:
        """The columns as they cross from the database."""
        return ", ".join(f"`{column.name.replace('`', '``')}` {column.raw_type}" for column in self.columns)

    def query(self, where: str) -> str:
        """Return the query for some rows."""
        values = ", ".join(
            f"{read_expression(column, quoted)} AS {quoted}"
            for column, quoted in ((column, quote(column.name)) for column in self.columns)
        )
        return f"SELECT {values} FROM {self.rows} AS t WHERE {where}"  # noqa: S608 - names are quoted


def quote(name: str) -> str:
    """Return a quoted name for PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Held:
    """A snapshot that the driver holds for the tasks of a batch."""

    connection: "Connection[Any]"
    id: str
    next_id: int


class Chunk(InputPartition):
    """A part of a batch."""

    def __init__(self, snapshot: str, where: str) -> None:
        self.snapshot = snapshot
        self.where = where


class PostgresDataSource(DataSource):
    """The base of the classes that `source_class` makes."""

    read: ClassVar[Read]

    def schema(self) -> str:
        """Return the columns as they cross from the database."""
        return self.read.raw_schema

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of the stream."""
        return PostgresStreamReader(self.read)


def source_class(name: str, read: Read) -> type[DataSource]:
    """Return a data source of this name; cloudpickle sends such a class by value."""

    class Named(PostgresDataSource):
        @classmethod
        def name(cls) -> str:
            return name

    Named.read = read
    return Named


class PostgresStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the driver, and reads chunks of them in tasks."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._connection: Connection[Any] | None = None
        self._held: tuple[Position, Held, int] | None = None
        self._is_started = False
        self._read_again: Position | None = None
        self._is_available_now = False
        self._next_look_s = 0.0

    # --- positions, in the driver

    def initialOffset(self) -> Position:
        """Return the position before the first row."""
        if self._read.cursor is None:
            return {"is_read": False}
        return {"next_id": 0, "open": [], "last": None, "floor": None}

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the rows that exist now."""
        self._is_available_now = True

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        """Return the end of the next batch; `start` if there is none yet."""
        self._release()
        if self._read.cursor is None:
            return {"is_read": True}
        is_done = self._is_available_now and self._is_started
        if is_done or time.monotonic() < self._next_look_s:
            return start
        with explained(self._read.doing), self._released_by_error():
            end = self._look(start)
        self._is_started = True
        if end == start and not self._is_available_now:
            self._next_look_s = time.monotonic() + self._read.poll_s
        return end

    def _look(self, start: Position) -> Position:
        """Find the rows that are new since a position, and hold the snapshot in which they were found."""
        new = find_seen(self._connect())
        held = self._hold()
        self._held = (start, held, 0)
        floor = self._floor(held, start)
        where = self._where(held, Seen.of(start), new, floor)
        cursor = str(self._read.cursor)
        is_first = start == self.initialOffset()
        what = f"max({cursor})::text, 1" if is_first else f"max({cursor})::text, count(*)"
        bound = "true" if is_first else where
        query = f"SELECT {what} FROM {self._read.rows} AS t WHERE {bound}"  # noqa: S608 - names are quoted
        found = held.connection.execute(_text(query)).fetchone()
        last, count = found if found is not None else (None, 0)
        if not count:
            self._release()
            return start
        end = {"next_id": new.next_id, "open": list(new.open), "last": self._later(held, start, last), "floor": floor}
        self._held = (end, held, count)
        return end

    def _floor(self, held: Held, start: Position) -> str | None:
        """Return the bound of the cursor; after a batch that was read again, it is that of this batch."""
        if self._read_again == start:
            return None if start["floor"] is None else str(start["floor"])
        if self._read.look_back is None or start["last"] is None:
            return None
        kind = self._read.cursor_type
        is_number = kind in (*INTEGERS, "numeric")
        # A time in the future would hide all rows until then.
        newest = f"%s::{kind}" if is_number else f"least(%s::{kind}, now()::{kind})"
        query = _text(f"SELECT ({newest} - %s::{'numeric' if is_number else 'interval'})::text")
        found = held.connection.execute(query, [start["last"], self._read.look_back]).fetchone()
        return None if found is None else found[0]

    def _later(self, held: Held, start: Position, last: str | None) -> str | None:
        query = _text(f"SELECT greatest(%s::{self._read.cursor_type}, %s::{self._read.cursor_type})::text")
        found = held.connection.execute(query, [start["last"], last]).fetchone()
        return None if found is None else found[0]

    def _where(self, held: Held, old: Seen, new: Seen, floor: str | None) -> str:
        from psycopg import sql

        where = new_rows(old, new, held.next_id)
        if floor is None:
            return where
        cursor, bound = str(self._read.cursor), sql.Literal(floor).as_string(held.connection)
        return f"({cursor} >= {bound}::{self._bound_type} OR {cursor} IS NULL) AND {where}"

    @property
    def _bound_type(self) -> str:
        return "numeric" if self._read.cursor_type in INTEGERS else self._read.cursor_type

    # --- chunks, in the driver

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        """Return the chunks of a batch."""
        with explained(self._read.doing), self._released_by_error():
            if self._held is not None and self._held[0] == end:
                _, held, row_count = self._held
            else:  # the batch is read again, or the stream has no cursor
                self._release()
                held, row_count = self._hold(), 0
                self._held, self._read_again = (end, held, row_count), end
            self._check_columns(held)
            where = "true"
            if self._read.cursor is not None:
                where = self._where(held, Seen.of(start), Seen.of(end), end["floor"])
            is_first = start == self.initialOffset()
            return [
                Chunk(held.id, f"{where} AND {part}") for part in self._parts(held, where, row_count, is_first=is_first)
            ]

    def _parts(self, held: Held, where: str, row_count: int, *, is_first: bool) -> list[str]:
        from psycopg import sql

        read = self._read
        pages = 0
        if is_first:
            if read.is_table:
                pages, row_count = estimate(held.connection, read.rows)
            elif read.key is not None:
                query = f"SELECT count(*) FROM {read.rows} AS t"  # noqa: S608 - names are quoted
                found = held.connection.execute(_text(query)).fetchone()
                row_count = found[0] if found else 0
        if read.key is not None and row_count > read.chunk_rows:
            rows: Any = sql.SQL(read.rows)
            return key_chunks(held.connection, rows, read.key, where, row_count, read.chunk_rows)
        return page_chunks(pages, row_count, read.chunk_rows) if is_first and read.is_table else ["true"]

    def _check_columns(self, held: Held) -> None:
        """Raise `ConnectorError` if a column has vanished or has another type than when the flow was started."""
        from psycopg import sql

        rows: Any = sql.SQL(self._read.rows)
        now = {column.name: column for column in describe(held.connection, rows)}
        for column in self._read.columns:
            if column.name not in now:
                raise ConnectorError(f"{self._read.doing}: column {column.name} has vanished")
            if now[column.name].read_type != column.read_type:
                raise ConnectorError(
                    f"{self._read.doing}: column {column.name} had the type {column.shown}, and now has "
                    f"{now[column.name].shown}; restart the pipeline to read it as this"
                )

    # --- connections, in the driver

    def _connect(self) -> "Connection[Any]":
        if self._connection is None or self._connection.closed:
            self._connection = self._read.database.connect(doing=self._read.doing, autocommit=True)
        return self._connection

    def _hold(self) -> Held:
        connection = self._read.database.connect(doing=self._read.doing, autocommit=True)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = connection.execute(_SNAPSHOT).fetchone()
        assert found is not None  # noqa: S101 - a query without conditions has a row
        return Held(connection, found[0], found[1])

    @contextmanager
    def _released_by_error(self) -> Iterator[None]:
        """Let go of the snapshot if an error is raised: its locks would block changes of the table."""
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        if self._held is not None:
            self._held[1].connection.close()
            self._held = None

    def commit(self, end: Position) -> None:
        """Let go of the snapshot of a batch that is over."""
        self._release()

    def stop(self) -> None:
        """Close the connections."""
        self._release()
        if self._connection is not None:
            self._connection.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, which need no connection of the driver."""
        return self.__dict__ | {"_connection": None, "_held": None}

    # --- rows, in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one chunk as Arrow batches."""
        assert isinstance(partition, Chunk)  # noqa: S101 - Spark hands back what `partitions` returned
        return read_chunk(self._read, partition.where, partition.snapshot)


def read_chunk(read: Read, where: str, snapshot: str | None = None) -> Iterator[Any]:
    """Return some rows of a table or a query, in a snapshot that the driver holds."""
    with read.database.connect(doing=read.doing, autocommit=True) as connection, explained(read.doing):
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if snapshot is not None:
            _join_snapshot(connection, read, snapshot)
        held: list[bytes] = []
        size = 0
        with connection.cursor().copy(_text(f"COPY ({read.query(where)}) TO STDOUT (FORMAT csv)")) as copy:
            for row in copy:  # PostgreSQL sends whole rows
                held.append(bytes(row))
                size += len(row)
                if size >= _PARSE_BYTES:
                    yield from _parse(read, b"".join(held))
                    held, size = [], 0
        yield from _parse(read, b"".join(held))


def _join_snapshot(connection: "Connection[Any]", read: Read, snapshot: str) -> None:
    import psycopg

    try:
        connection.execute(_text(f"SET TRANSACTION SNAPSHOT '{snapshot}'"))
    except psycopg.Error:
        raise RetriableConnectorError(
            f"{read.doing}: the snapshot of the batch is gone, because the driver lost its connection"
        ) from None


def _parse(read: Read, text: bytes) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    if not text:
        return
    schema = pa.schema([(column.name, arrow_type(column.raw_type)) for column in read.columns])
    try:
        table = csv.read_csv(
            BytesIO(text),
            csv.ReadOptions(column_names=schema.names, block_size=len(text) + 1, use_threads=False),
            csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=schema,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )
    except pa.ArrowInvalid as error:
        names = ", ".join(f"#{index} is {column.name}" for index, column in enumerate(read.columns))
        raise ConnectorError(shorten(f"{read.doing}: Spark's type cannot hold a value: {error}; {names}")) from None
    yield from table.to_batches()


def _text(query: str) -> Any:
    """Return a query that was put together here; psycopg's types take literals only."""
    from psycopg import sql

    return sql.SQL(query)
