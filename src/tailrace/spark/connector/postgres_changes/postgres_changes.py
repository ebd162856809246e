"""The declaration of a database's changes as the source of a flow."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tailrace.spark.connector.argument import check_choice, check_columns, check_schema
from tailrace.spark.connector.base import FlowPlace, FlowStart, Source
from tailrace.spark.connector.postgres.connection import Database, parse_database
from tailrace.spark.connector.postgres.table import parse_table
from tailrace.spark.connector.postgres_changes.slot import Slot
from tailrace.spark.connector.postgres_changes.slot_start import check_database, check_slot, find_tables, start_slot
from tailrace.spark.connector.postgres_changes.start_record import read_record, record_path
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tailrace.spark.connector.postgres_changes.stream_reader import ChangesRead

_SLOT_NAME = re.compile(r"[a-z0-9_]{1,63}")
_PUBLIC = "public"
_MEGABYTE = 1 << 20


class Snapshot(StrEnum):
    """Whether the rows that exist at the first start come before the changes."""

    INITIAL = "initial"
    NEVER = "never"


class Form(StrEnum):
    """The form of the rows."""

    COLUMNS = "columns"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class PostgresChanges(Source):
    """The changes of tables; created by `postgres_changes`."""

    database: Database
    tables: tuple[QualifiedName, ...] = ()
    slot: str | None = None
    publication: str | None = None
    snapshot: Snapshot = Snapshot.INITIAL
    form: Form = Form.COLUMNS
    schema: Any = None
    name: str | None = None
    batch_size: int = 100_000
    chunk_size: int = 50_000
    retained_wal_mb: int = 1024

    def __str__(self) -> str:
        return f"changes of {self.database}"

    def check_source(self) -> None:
        if not self.tables and self.publication is None:
            raise PipelineError("postgres_changes() needs tables=, or the name of a publication that exists")
        if self.schema is not None and self.form is Form.RECORDS:
            raise PipelineError('postgres_changes(): schema= is for format="columns"')

    def connect_source(self, place: FlowPlace) -> None:
        slot = self._slot(place)
        record = read_record(record_path(place.checkpoint, slot.name))
        with slot.session() as connection:
            check_database(connection, slot, self.tables)
            check_slot(connection, slot, record, is_adopted=self.snapshot is Snapshot.NEVER)

    def read_place(self, place: FlowPlace) -> str:
        return f"replication slot {self._slot(place).name}"

    def drop_slot(self, place: FlowPlace) -> str | None:
        slot = self._slot(place)
        if read_record(record_path(place.checkpoint, slot.name)) is None:
            return None  # the flow has not used it
        with slot.session() as connection:
            slot.drop(connection)
        return str(slot)

    def read(self, start: FlowStart) -> "DataFrame":
        wanted = self._wanted(start.place)
        has_snapshot = self.snapshot is Snapshot.INITIAL
        start.before_start(lambda: start_slot(wanted.slot, self.tables, wanted.record_path, has_snapshot=has_snapshot))
        return self._decode(start.spark.readStream.format(_register(wanted, start)).load())

    def sample(self, start: FlowStart) -> "DataFrame":
        wanted = self._wanted(start.place)
        return self._decode(start.spark.read.format(_register(wanted, start)).load())

    def _slot(self, place: FlowPlace) -> Slot:
        name = self.slot or _slot_name(place.flow)
        return Slot(self.database, name, self.publication or name)

    def _wanted(self, place: FlowPlace) -> "ChangesRead":
        from tailrace.spark.connector.postgres_changes.stream_reader import ChangesRead

        slot = self._slot(place)
        with slot.session() as connection:
            tables = tuple(find_tables(connection, slot, self.tables))
            database_name = connection.info.dbname
        return ChangesRead(
            slot,
            tables,
            self.name or database_name,
            database_name,
            record_path(place.checkpoint, slot.name),
            self.form is Form.RECORDS,
            self.batch_size,
            self.chunk_size,
            retained_bytes_max=self.retained_wal_mb * _MEGABYTE,
        )

    def _decode(self, rows: "DataFrame") -> "DataFrame":
        """Decode the rows of a table from JSON, if their schema is given."""
        if self.schema is None:
            return rows
        from pyspark.sql.functions import from_json

        decoded = {name: from_json(name, self.schema, {"mode": "FAILFAST"}) for name in ("before", "after")}
        return rows.withColumns(decoded)


def postgres_changes(
    url: Any,
    *,
    tables: str | Sequence[str] = (),
    slot: str | None = None,
    publication: str | None = None,
    snapshot: str = "initial",
    format: str = "columns",
    schema: Any = None,
    name: str | None = None,
    batch_size: int = 100_000,
    chunk_size: int = 50_000,
    retained_wal_mb: int = 1024,
) -> PostgresChanges:
    """The changes of PostgreSQL tables as the source of a flow, in Debezium's envelope.

    `tables` are names such as "orders" or "sales.orders"; without them, those of the publication are read. A `slot` and
    a `publication` that do not exist are created when the flow first starts; they are named after the flow. With
    snapshot="initial" (the default) the rows that exist then come first; with "never" only changes come.

    The columns are those of the envelope: `key`, `before`, `after`, `source`, `op`, `ts_ms` and so on. `before` and
    `after` are JSON, or structs of a `schema` that is given for the rows of one table. format="records" has the columns
    `key`, `value` and `headers` of Debezium's records, for topic(…, format="raw"). `name` is the field `name` of
    `source`, by default the name of the database.

    A batch has about `batch_size` changes, in whole transactions; a task of the snapshot reads `chunk_size` rows. If
    the slot makes the server keep more than `retained_wal_mb` of its log, a warning is logged.
    """
    place = "postgres_changes()"
    for label, number in (("batch_size", batch_size), ("chunk_size", chunk_size), ("retained_wal_mb", retained_wal_mb)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise PipelineError(f"{place}: {label}={number!r} is not a positive number")
    if slot is not None and (not isinstance(slot, str) or not _SLOT_NAME.fullmatch(slot)):
        raise PipelineError(f"{place}: slot={slot!r} is not a name of lower-case letters, digits and _")
    if publication is not None and (not isinstance(publication, str) or not publication.strip()):
        raise PipelineError(f"{place}: publication={publication!r} is not a name")
    parsed = [parse_table(place, table) for table in check_columns(tables)]
    return PostgresChanges(
        parse_database(place, url),
        tuple(dict.fromkeys((table.schema or _PUBLIC, table.name) for table in parsed)),
        slot,
        publication,
        Snapshot(check_choice(place, "snapshot", snapshot, Snapshot)),
        Form(check_choice(place, "format", format, Form)),
        check_schema(place, schema),
        name,
        batch_size,
        chunk_size,
        retained_wal_mb,
    )


def _register(wanted: "ChangesRead", start: FlowStart) -> str:
    from tailrace.spark.connector.postgres_changes.stream_reader import data_source

    source = data_source(wanted, start.place.flow)
    start.spark.dataSource.register(source)
    return source.name()


def _slot_name(flow: str) -> str:
    """Return the name of a flow's slot; PostgreSQL allows lower-case letters, digits and underscores."""
    return f"tailrace_{re.sub(r'[^a-z0-9_]', '_', flow.lower())}"[:63]
