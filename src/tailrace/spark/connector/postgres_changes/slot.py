"""The replication slot of a flow: its creation, its state, its changes, and its advance.

A slot keeps the write-ahead log from the last position that it was advanced to. Peeking at it changes nothing, so a
batch can be read again until its end was committed. One session at a time can use a slot.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tailrace.spark.connector.postgres.connection import Database, explained
from tailrace.spark.connector.postgres_changes.position import format_lsn, parse_lsn
from tailrace.spark.error import ConnectorError, DataLossError, RetriableConnectorError

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

PLUGIN = "pgoutput"
_IN_USE_WAIT_S = 10.0
_IN_USE_INTERVAL_S = 0.1
_GROWTH = 4
_STREAM_ROWS = 500

_STATE = """\
SELECT plugin::text, database::text, active_pid, confirmed_flush_lsn::text, wal_status,
    pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)::bigint, pg_current_wal_flush_lsn()::text
FROM pg_replication_slots WHERE slot_name = %s"""

_PEEK = """\
SELECT {columns} FROM pg_logical_slot_peek_binary_changes(
    %(slot)s, %(upto)s::pg_lsn, %(count)s, 'proto_version', '1', 'publication_names', %(publication)s)"""
_MESSAGES = _PEEK.format(columns="lsn::text, data")

# Byte 0 of a message is its kind; that of a commit has its two positions in the bytes 2 to 17.
_LAST_COMMIT = _PEEK.format(
    columns="count(*), max(encode(substring(data FROM 3 FOR 16), 'hex') COLLATE \"C\") "
    "FILTER (WHERE get_byte(data, 0) = 67)"
)


@dataclass(frozen=True, slots=True)
class SlotState:
    """What PostgreSQL says about a slot."""

    plugin: str
    database: str
    user_pid: int | None
    confirmed_lsn: int
    wal_status: str | None
    retained_bytes: int
    flushed_lsn: int
    """The end of the write-ahead log."""


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was just created: its first position, and the snapshot that sees exactly what is before it."""

    lsn: int
    base: str


class BatchEnd(NamedTuple):
    """The end of a batch, and whether there is nothing else up to the position that was looked at."""

    lsn: int | None
    is_all: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """The slot and the publication of a flow, in its database."""

    database: Database
    name: str
    publication: str

    def __str__(self) -> str:
        return f"replication slot {self.name} of {self.database}"

    def connect(self) -> "Connection[Any]":
        """Return a new connection whose sessions write values as `value` reads them."""
        doing = f"read {self}"
        connection = self.database.connect(doing=doing, autocommit=True)
        with explained(doing):
            connection.execute("SET client_encoding = 'UTF8'; SET lc_monetary = 'C'")
        return connection

    @contextmanager
    def session(self) -> "Iterator[Connection[Any]]":
        """Open a connection for the block, whose errors name the slot."""
        with self.connect() as connection, self.explained():
            yield connection

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise the errors of the database as those of the flow."""
        with explained(f"read {self}"):
            yield

    def create(self) -> NewSlot:
        """Create the slot and a snapshot at its first position; waits for running transactions that write."""
        import psycopg
        from psycopg.conninfo import make_conninfo
        from psycopg.pq import ExecStatus

        with (
            explained(f"create {self}"),
            psycopg.connect(
                make_conninfo(self.database.conninfo, replication="database"), autocommit=True
            ) as replication,
        ):
            command = f"CREATE_REPLICATION_SLOT {self.name} LOGICAL {PLUGIN} EXPORT_SNAPSHOT"
            found = replication.pgconn.exec_(command.encode())
            if found.status != ExecStatus.TUPLES_OK:
                reason = found.error_message.decode(errors="replace").strip().removeprefix("ERROR:").strip()
                raise ConnectorError(f"create {self}: {reason}")
            lsn, snapshot = ((found.get_value(0, index) or b"").decode() for index in (1, 2))
            # The snapshot is there as long as the connection that has created it does nothing else.
            with self.connect() as reader:
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                reader.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
                base = reader.execute("SELECT pg_current_snapshot()::text").fetchone()
                reader.execute("ROLLBACK")
        return NewSlot(parse_lsn(lsn), "" if base is None else str(base[0]))

    def drop(self, connection: "Connection[Any]") -> None:
        """Drop the slot if there is one."""
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        self._using(lambda: connection.execute(query, [self.name]))

    def look(self, connection: "Connection[Any]") -> SlotState | None:
        """Return the state of the slot; None if there is none."""
        found = connection.execute(_STATE, [self.name]).fetchone()
        if found is None:
            return None
        plugin, database, pid, confirmed, status, retained, flushed = found
        confirmed_lsn = parse_lsn(confirmed) if confirmed else 0
        return SlotState(plugin, database, pid, confirmed_lsn, status, retained or 0, parse_lsn(flushed))

    def require(self, connection: "Connection[Any]", start_lsn: int) -> SlotState:
        """Return the state of the slot; raises `DataLossError` if it does not have all changes from a position."""
        state = self.look(connection)
        if state is None:
            raise DataLossError(
                f"{self} is missing, and with it the changes after {format_lsn(start_lsn)}; "
                "reset the flow to read its tables again with a new slot"
            )
        if state.wal_status == "lost":
            raise DataLossError(
                f"{self} is lost: the server has removed log files that it needs (max_slot_wal_keep_size); "
                f"drop it with SELECT pg_drop_replication_slot('{self.name}'), and reset the flow"
            )
        if state.confirmed_lsn > start_lsn:
            raise DataLossError(
                f"{self} was advanced to {format_lsn(state.confirmed_lsn)} by another program, and the flow is at "
                f"{format_lsn(start_lsn)}; the changes in between cannot be read"
            )
        if state.flushed_lsn < start_lsn:
            raise DataLossError(
                f"the log of {self.database} ends at {format_lsn(state.flushed_lsn)}, before the position "
                f"{format_lsn(start_lsn)} of the flow: it is another server, or was restored from a backup"
            )
        return state

    def find_end(self, connection: "Connection[Any]", start_lsn: int, upto_lsn: int, change_count_max: int) -> BatchEnd:
        """Return the end of the last whole transaction of a batch; None if there are no changes before `upto_lsn`."""
        count = change_count_max
        while True:
            find = partial(connection.execute, _LAST_COMMIT, self._parameters(upto_lsn, count))
            message_count, commit = self._using(find).fetchone() or (0, None)
            if commit is not None:
                commit_lsn, end_lsn = int(commit[:16], 16), int(commit[16:], 16)
                if commit_lsn >= start_lsn:
                    return BatchEnd(end_lsn, message_count < count)
            if message_count < count:
                return BatchEnd(None, is_all=True)
            count *= _GROWTH  # the slot still has changes from before the start

    def peek(self, connection: "Connection[Any]", upto_lsn: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages of the slot with their positions, at least those of transactions before `upto_lsn`."""

        from psycopg import capabilities

        size = _STREAM_ROWS if capabilities.has_stream_chunked() else 1

        def first() -> tuple[Iterator[tuple[str, bytes]], tuple[str, bytes] | None]:
            rows = connection.cursor().stream(_MESSAGES, self._parameters(upto_lsn, None), binary=True, size=size)
            return rows, next(rows, None)

        rows, row = self._using(first)
        while row is not None:
            yield parse_lsn(row[0]), bytes(row[1])
            row = next(rows, None)

    def advance(self, connection: "Connection[Any]", lsn: int) -> None:
        """Let the server forget the changes before a position."""
        query = (
            "SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn"
        )
        text = format_lsn(lsn)
        self._using(lambda: connection.execute(query, [text, self.name, text]))

    def _parameters(self, upto_lsn: int, count: int | None) -> dict[str, Any]:
        quoted = self.publication.replace('"', '""')
        return {"slot": self.name, "upto": format_lsn(upto_lsn), "count": count, "publication": f'"{quoted}"'}

    def _using(self, action: Callable[[], T]) -> T:
        """Do something with the slot; waits for a session that uses it, which may be that of a task that was killed."""
        from psycopg.errors import ObjectInUse

        deadline_s = time.monotonic() + _IN_USE_WAIT_S
        while True:
            try:
                return action()
            except ObjectInUse as error:
                if time.monotonic() >= deadline_s:
                    raise RetriableConnectorError(
                        f"{self} is used by another process: {error.diag.message_primary}"
                    ) from None
            time.sleep(_IN_USE_INTERVAL_S)
