"""The reader of changes in micro-batches.

One object lives in the driver as long as the query, and plans the batches. First come those of the snapshot, each with
some chunks of tables, which tasks read in parallel: their keys differ, so their order does not matter. Then come those
of the slot, each with whole transactions in the order of their commits. One task reads such a batch, because a slot has
one reader and the order of changes must be kept.

Spark commits the end of a batch when the batch is finished and in its checkpoint. The slot is advanced only then, so a
batch that is repeated reads the same transactions again.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tailrace import __version__
from tailrace.spark.connector.durable import sync_end
from tailrace.spark.connector.postgres_changes.catalog import read_keys, read_types
from tailrace.spark.connector.postgres_changes.change import ChangeReader, LsnRange
from tailrace.spark.connector.postgres_changes.chunk_read import (
    ChunkPlace,
    describe_published,
    find_chunk_end,
    read_chunk,
    read_some,
)
from tailrace.spark.connector.postgres_changes.envelope import COLUMNS, RECORDS, Envelope, Origin
from tailrace.spark.connector.postgres_changes.position import Chunk, Key, Position, parse_lsn, plan_chunks
from tailrace.spark.connector.postgres_changes.slot import Slot
from tailrace.spark.connector.postgres_changes.start_record import StartRecord, read_record
from tailrace.spark.connector.postgres_changes.table_form import QualifiedName
from tailrace.spark.connector.postgres_changes.wal_watch import WalWatch
from tailrace.spark.error import PipelineError

if TYPE_CHECKING:
    from psycopg import Connection

log = logging.getLogger(__name__)

_IDLE_ADVANCE_BYTES = 16 << 20
"""So much log without changes of the tables makes an empty batch, so that the slot lets the server remove it."""
_SAMPLE_ROWS = 100


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """What a query reads."""

    slot: Slot
    tables: tuple[QualifiedName, ...]
    name: str
    database_name: str
    record_path: Path
    is_records: bool = False
    batch_size: int = 100_000
    chunk_size: int = 50_000
    chunk_count: int = 4
    retained_bytes_max: int = 1 << 30

    def envelope(self, planned_us: int, snapshot_us: int = 0) -> Envelope:
        """Return the envelope of a batch that was planned at this time."""
        origin = Origin(__version__, self.name, self.database_name, planned_us, snapshot_us)
        return Envelope(origin, self.is_records)


@dataclass
class ChangesPartition(InputPartition):
    """The changes of a range of the log, or the rows of a chunk."""

    start_lsn: int
    end_lsn: int
    planned_us: int
    chunk: Chunk | None = None
    place: ChunkPlace | None = None
    snapshot_us: int = 0


class ChangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a snapshot of tables, and then their changes."""

    def __init__(self, wanted: ChangesRead) -> None:
        self._wanted = wanted
        self._slot = wanted.slot
        self._watch = WalWatch(str(wanted.slot), wanted.retained_bytes_max)
        self._opened: Connection[Any] | None = None
        self._start: StartRecord | None = None
        self._seen_lsn = 0
        """Before this position there are no changes that were not planned."""
        self._flushed_lsn = 0
        self._target_lsn: int | None = None

    # --- positions, in the driver

    def initialOffset(self) -> dict[str, Any]:
        """Return the begin of the slot."""
        return self._record.position.to_json()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there are no changes yet."""
        position = Position.from_json(start)
        with self._slot.explained():
            if position.chunks is not None:
                chunks = plan_chunks(
                    position.chunks, list(self._record.tables), self._wanted.chunk_count, self._find_chunk_end
                )
                if chunks:
                    self._watch.look(self._slot.require(self._connection, position.lsn).retained_bytes)
                    return Position(position.lsn, _now_us(), chunks).to_json()
            end_lsn = self._find_end(position.lsn)
        return dict(start) if end_lsn is None else Position(end_lsn, _now_us()).to_json()

    def _find_end(self, start_lsn: int) -> int | None:
        upto_lsn = self._find_flushed()
        if upto_lsn <= max(start_lsn, self._seen_lsn):
            if upto_lsn < start_lsn and self._target_lsn is None:
                self._slot.require(self._connection, start_lsn)  # says that the log went backwards
            return None
        state = self._slot.require(self._connection, start_lsn)
        self._watch.look(state.retained_bytes)
        found = self._slot.find_end(self._connection, start_lsn, upto_lsn, self._wanted.batch_size)
        if found.is_all:
            self._seen_lsn = max(upto_lsn, found.lsn or 0)
        if found.lsn is None and upto_lsn - start_lsn >= _IDLE_ADVANCE_BYTES:
            return upto_lsn
        return found.lsn

    def _find_flushed(self) -> int:
        row = self._connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        self._flushed_lsn = 0 if row is None else parse_lsn(row[0])
        return self._flushed_lsn if self._target_lsn is None else min(self._flushed_lsn, self._target_lsn)

    def _find_chunk_end(self, name: QualifiedName, after: Key | None) -> Key | None:
        table = describe_published(self._connection, name, self._slot.publication)
        return find_chunk_end(self._connection, table, after, self._wanted.chunk_size)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the log, for the progress report."""
        return Position(self._flushed_lsn).to_json() if self._flushed_lsn else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the changes that exist now."""
        with self._slot.explained():
            self._target_lsn = self._find_flushed()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of one batch."""
        first, last = Position.from_json(start), Position.from_json(end)
        if last == first:
            return []
        if last.chunks is None:
            return [ChangesPartition(first.lsn, last.lsn, last.planned_us)]
        record = self._record
        return [
            ChangesPartition(
                first.lsn,
                last.lsn,
                last.planned_us,
                chunk,
                ChunkPlace(self._slot.publication, last.lsn, record.base or "", record.tables.get(chunk.table, "")),
                record.created_us,
            )
            for chunk in last.chunks
        ]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Advance the slot to the end of a batch that is finished."""
        position = Position.from_json(end)
        if position.chunks is None:
            sync_end(self._wanted.record_path.parent)  # the server forgets the changes for good
            with self._slot.explained():
                self._slot.advance(self._connection, position.lsn)

    def stop(self) -> None:
        """Close the connection of the driver."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _connection(self) -> "Connection[Any]":
        if self._opened is None:
            self._opened = self._slot.connect()
        return self._opened

    @property
    def _record(self) -> StartRecord:
        if self._start is None:
            self._start = read_record(self._wanted.record_path)
        if self._start is None or self._start.lsn is None:
            raise PipelineError(f"the checkpoint file {self._wanted.record_path} is missing; reset the flow")
        return self._start

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, which have connections of their own."""
        return self.__dict__ | {"_opened": None}

    # --- rows, in a task

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows of one task as Arrow batches."""
        if not isinstance(partition, ChangesPartition):
            return
        envelope = self._wanted.envelope(partition.planned_us, partition.snapshot_us)
        with self._slot.session() as connection:
            if partition.chunk is not None and partition.place is not None:
                yield from envelope.batches(read_chunk(connection, partition.chunk, partition.place))
                return
            self._slot.require(connection, partition.start_lsn)
            reader = ChangeReader(
                LsnRange(partition.start_lsn, partition.end_lsn),
                read_keys(connection, self._slot.publication),
                frozenset(self._wanted.tables) or None,
                read_types(connection),
            )
            yield from envelope.batches(reader.read(self._slot.peek(connection, partition.end_lsn)))


class SampleReader(DataSourceReader):
    """Reads some rows of each table as a batch, without the slot."""

    def __init__(self, wanted: ChangesRead) -> None:
        self._wanted = wanted

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the rows as Arrow batches."""
        wanted, now_us = self._wanted, _now_us()
        envelope = wanted.envelope(now_us, now_us)
        with wanted.slot.session() as connection:
            for name in wanted.tables:
                table = describe_published(connection, name, wanted.slot.publication)
                yield from envelope.batches(read_some(connection, table, _SAMPLE_ROWS))


def data_source(wanted: ChangesRead, flow: str) -> type[DataSource]:
    """Return the data source of one flow.

    Options of a data source are shown by Spark's web pages. So the settings, which may have a password, are part of a
    class of the flow's own, which is sent to workers by value.
    """
    digest = sha256(f"{flow} {wanted.slot}".encode()).hexdigest()[:8]

    class PostgresChangesData(DataSource):
        """The changes that one flow reads."""

        @classmethod
        def name(cls) -> str:
            return f"tailrace_postgres_changes_{digest}"

        def schema(self) -> str:
            return RECORDS if wanted.is_records else COLUMNS

        def streamReader(self, schema: StructType) -> ChangeStreamReader:
            return ChangeStreamReader(wanted)

        def reader(self, schema: StructType) -> SampleReader:
            return SampleReader(wanted)

    return PostgresChangesData


def _now_us() -> int:
    return time.time_ns() // 1000
